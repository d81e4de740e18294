// Light, dark, or as the system has it: set before anything is drawn.
(() => {
  const kept = () => {
    try { return localStorage.getItem("theme") ?? ""; } catch { return ""; }
  };
  const use = (theme) => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  use(kept());
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const names = { "": ["◐ Auto", "as the system"], light: ["◐ Light", "light"], dark: ["◐ Dark", "dark"] };
    const say = (theme) => {
      const [text, spoken] = names[theme] ?? names[""];
      button.textContent = text;
      button.setAttribute("aria-label", `Colours: ${spoken}`);
    };
    say(kept());
    button.addEventListener("click", () => {
      const order = ["", "light", "dark"];
      const theme = order[(order.indexOf(document.documentElement.dataset.theme ?? "") + 1) % 3];
      try { localStorage.setItem("theme", theme); } catch { /* not kept, then */ }
      use(theme);
      say(theme);
    });
  });
})();
