/** The only style of the report; its page allows no other. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --text: #1c2430; --quiet: #5b6675; --line: #d9dee5; --back: #ffffff; --panel: #f5f7f9;
  --all: #b9c3cf; --a: #1f6feb; --b: #b5500b; --warn: #8a5a00; --warn-back: #fff5dc;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --text: #e4e9f0; --quiet: #9aa6b5; --line: #313a46; --back: #12161c; --panel: #1a2029;
    --all: #4a5666; --a: #6cb0ff; --b: #f0a35e; --warn: #f0c674; --warn-back: #2d2615;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 68rem;
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif; color: var(--text); background: var(--back);
}
h1 { font-size: 1.4rem; margin: 0 0 .25rem; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p { margin: .25rem 0; }
.quiet { color: var(--quiet); }
.key { display: inline-block; width: 1.4rem; height: .7rem; margin-right: .3rem; vertical-align: middle; }
.wide { overflow-x: auto; }
.wide:focus-visible { outline: 2px solid var(--a); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--quiet); padding: 0 0 .35rem; }
th, td { text-align: left; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
th { font-weight: 600; color: var(--quiet); font-size: .9em; }
td.number, th.number { text-align: right; }
tbody th, td.name, td.caller { white-space: normal; overflow-wrap: anywhere; min-width: 7rem; }
td.caller { min-width: 12rem; }
td.bar { width: 30%; min-width: 8rem; }
td.bar svg, .chart svg { display: block; width: 100%; }
td.bar svg { height: 1.1rem; }
.chart { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .5rem; overflow-x: auto; }
.chart svg { min-width: 40rem; height: auto; }
.chart text { fill: var(--quiet); font-size: 12px; }
.grid { stroke: var(--line); }
.all { fill: var(--all); }
.a, .b { fill: none; stroke-width: 1.5; }
.a { stroke: var(--a); }
.b { stroke: var(--b); stroke-dasharray: 6 3; }
.would { stroke-dasharray: 1.5 2.5; }
.bar-a { fill: var(--a); }
.bar-b { fill: var(--b); }
.hit { fill: transparent; }
.hit:hover { fill: var(--quiet); fill-opacity: .18; }
.notes { padding: .6rem 1rem; border-left: 4px solid var(--warn); background: var(--warn-back); list-style: none; margin: .75rem 0; }
.notes li { margin: .15rem 0; overflow-wrap: anywhere; }
@media print {
  body { max-width: none; font-size: 11px; }
  .wide, .chart { overflow: visible; }
  .chart { break-inside: avoid; }
  .chart svg { min-width: 0; }
  th, td { padding-right: .5rem; white-space: normal; }
  td.caller, tbody th, td.name { min-width: 6rem; }
  td.bar { width: 15%; min-width: 3rem; }
}
`
