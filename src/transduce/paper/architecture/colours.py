"""The colours and the letters of Figure 1, for light pages and for dark ones, as CSS."""

from typing import Literal

Ink = Literal["light", "dark", "both"]
"""The page it is for; "both" follows the reader's scheme."""

_LIGHT = (
    "--page:#ffffff;--ink:#1b2024;--soft:#59626b;--wire:#3c444c;--stack:#f5f5f3;--rim:#c9ccd0;"
    "--tie:#175a9f;--attention:#fde2c4;--attention-rim:#c97a22;--feed:#cfe5f7;--feed-rim:#3b7fb8;"
    "--norm:#f3f3c2;--norm-rim:#a3a03a;--embedding:#f8dce2;--embedding-rim:#b8637a;"
    "--linear:#dcdcf6;--linear-rim:#6d6bb5;--softmax:#d6ecd6;--softmax-rim:#56905a;"
    "--other:#e6e8ea;--other-rim:#868e96"
)
_DARK = (
    "--page:#14171c;--ink:#e9ebed;--soft:#aeb6be;--wire:#a5aeb7;--stack:#1d2126;--rim:#444b53;"
    "--tie:#86bdf7;--attention:#5a3a14;--attention-rim:#e0a050;--feed:#173a56;--feed-rim:#69aee6;"
    "--norm:#44430f;--norm-rim:#c9c65a;--embedding:#55222f;--embedding-rim:#e58da3;"
    "--linear:#312f63;--linear-rim:#a3a1ee;--softmax:#1e4423;--softmax-rim:#7cc682;"
    "--other:#2c3238;--other-rim:#868e96"
)
_STYLE = """svg.model{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
.model text{fill:var(--ink);font-size:15px;text-anchor:middle}
.model .name{font-weight:600}
.model .soft{fill:var(--soft);fill-opacity:1;font-size:13px}
.model tspan.soft{font-weight:400}
.model .times{font-size:26px;font-weight:600}
.model .title{font-size:19px;font-weight:650;text-anchor:start}
.model .start{text-anchor:start}.model .end{text-anchor:end}
.model .page{fill:var(--page)}
.model .stack{fill:var(--stack);stroke:var(--rim);stroke-width:1.5}
.model .wire{fill:none;stroke:var(--wire);stroke-width:1.6}
.model .tie{fill:none;stroke:var(--tie);stroke-width:1.6;stroke-dasharray:2 5;stroke-linecap:round}
.model .tied{fill:var(--tie)}
.model .head{fill:var(--wire)}
.model .sum{fill:var(--page);stroke:var(--wire);stroke-width:1.6}
"""
_KINDS = ("attention", "feed", "norm", "embedding", "linear", "softmax", "other")


def style(ink: Ink) -> str:
    """The style sheet of a drawing."""
    boxes = "".join(
        f".model .{kind}{{fill:var(--{kind});stroke:var(--{kind}-rim);stroke-width:1.5}}\n"
        for kind in _KINDS
    )
    colours = f"svg.model{{{_DARK if ink == 'dark' else _LIGHT}}}\n"
    if ink == "both":
        colours += f"@media (prefers-color-scheme:dark){{svg.model{{{_DARK}}}}}\n"
    return _STYLE + boxes + colours
