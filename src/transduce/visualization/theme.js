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
    const names = { "": "Auto", light: "Light", dark: "Dark" };
    const labelButton = (theme) => {
      const name = names[theme] ?? names[""];
      button.textContent = `◐ ${name}`;
      button.setAttribute("aria-label", `◐ ${name}: colour scheme`); // it contains the visible text
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
