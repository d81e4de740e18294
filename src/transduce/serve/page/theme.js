// Light, dark or the system's scheme; applied before the first paint.
(() => {
  const storedTheme = () => {
    try { return localStorage.getItem("theme") ?? ""; } catch { return ""; }
  };
  const applyTheme = (theme) => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  applyTheme(storedTheme());
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const names = { "": ["◐ Auto", "system"], light: ["◐ Light", "light"], dark: ["◐ Dark", "dark"] };
    const labelButton = (theme) => {
      const [text, spoken] = names[theme] ?? names[""];
      button.textContent = text;
      button.setAttribute("aria-label", `Colour scheme: ${spoken}`);
    };
    labelButton(storedTheme());
    button.addEventListener("click", () => {
      const order = ["", "light", "dark"];
      const theme = order[(order.indexOf(document.documentElement.dataset.theme ?? "") + 1) % 3];
      try { localStorage.setItem("theme", theme); } catch { /* storage is disabled */ }
      applyTheme(theme);
      labelButton(theme);
    });
  });
})();
