"""The look of a report: on a desk, on a phone, on paper, and in the dark."""

STYLE = """
:root { --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --card: #f6f8fa; --page: #fff; --bad: #b42318;
  --warn: #8a5a00; --good: #1a6b3c; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.2rem; margin: 2rem 0 .6rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: .8rem 0 .4rem; }
.facts { display: flex; flex-wrap: wrap; gap: .2rem 1.6rem; margin: 0; color: var(--soft); font-size: .9rem; }
.facts div { display: flex; gap: .4rem; } .facts dt { font-weight: 600; white-space: nowrap; } .facts dd { margin: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .8rem; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .7rem .9rem; }
.tile .label { font-size: .85rem; color: var(--soft); }
.tile .value { font-size: 1.5rem; white-space: nowrap; line-height: 1.25; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.tile .range { font-size: .8rem; color: var(--soft); font-variant-numeric: tabular-nums; }
.findings { list-style: none; margin: 0; padding: 0; }
.finding { margin: 0 0 .6rem; padding: .6rem .9rem; border: 1px solid var(--line);
  border-left: .35rem solid var(--warn); border-radius: .3rem; background: var(--card); }
.finding.warn strong { color: var(--warn); }
.finding.bad { border-left-color: var(--bad); } .finding.bad strong { color: var(--bad); }
.finding.good { border-left-color: var(--good); }
.finding .fix { display: block; color: var(--soft); font-size: .92rem; }
.wide { overflow-x: auto; margin: .4rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap;
  font-weight: 400; overflow-wrap: normal; }
th.text, td.text { text-align: left; }
tbody th { font-weight: 500; }
tbody th.names { white-space: normal; overflow-wrap: anywhere; min-width: 8rem; }
thead th { border-bottom: 2px solid var(--soft); font-weight: 600; }
td.text { white-space: normal; min-width: 9rem; }
td.remark { white-space: nowrap; }
@media (max-width: 30rem) { th, td { padding: .3rem .45rem; } table { font-size: .85rem; } }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr)); gap: 1rem;
  margin-top: .8rem; }
figure { margin: 0; max-width: 34rem; }
figure img { display: block; width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: .4rem; }
figcaption { font-size: .85rem; color: var(--soft); margin-top: .3rem; }
.note, footer { font-size: .85rem; color: var(--soft); }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --soft: #9aa4ae; --line: #333a41; --card: #1c2126; --page: #14171a; --bad: #ff8a7a;
    --warn: #f0b429; --good: #5fd08a; }
}
@media print {
  :root { --ink: #000; --soft: #444; --line: #bbb; --card: #fff; --page: #fff; --bad: #b42318; --warn: #8a5a00;
    --good: #1a6b3c; }
  @page { margin: 15mm; }
  body { font-size: 10.5pt; } main { max-width: none; padding: 0; }
  h2 { break-after: avoid; } figure, .tile, .finding, tr { break-inside: avoid; }
  .figures { grid-template-columns: 1fr 1fr; } .wide { overflow: visible; }
  th, td { white-space: normal; padding: .2rem .4rem; }
}
"""
