// Slow traffic and delays of streams as tables in Markdown, which the benchmark inserts into docs/measurements.md between marks that name them.
import { whole } from '../support/numbers.mjs'
import { formatSteal } from '../support/steal.mjs'

const TABLES = { slow: slowTable, delays: delaysTable }

/** Tables stand between `<!-- proxy NAME -->` and `<!-- end -->`. */
export function insertTables(page, results) {
  return page.replace(/(<!-- proxy (\w+) -->\n).*?(<!-- end -->)/gs, (old, begin, name, end) =>
    results[name] === undefined ? old : `${begin}\n${TABLES[name](results[name])}\n\n${end}`,
  )
}

function slowTable(rates) {
  const head = ['µs for each request', 'CPU', 'beside nginx', 'p50', 'added', 'p99', 'p99.9', 'Steal', 'Calm runs']
  const rows = rates.flatMap(({ title, rows }) =>
    rows.map((row, i) => [i === 0 ? `${title}: ${row.name}` : nameOf(row), ...slowCells(row)]),
  )
  return table(head, rows)
}

/** Steal is that of all runs, because CPU time is; delays are those of the calm ones. */
function slowCells({ isMissing, cpuUs, cpuRatio, p50Us, addedUs, p99Us, p999Us, steal, runs, calmRuns }) {
  if (isMissing) return ['not installed', '', '', '', '', '', '', '']
  const delays = p50Us === undefined ? ['stolen time', '', '', ''] : [p50Us, addedUs, p99Us, p999Us].map(cell)
  return [whole(cpuUs), cpuRatio === undefined ? '' : cpuRatio.toFixed(2), ...delays, formatSteal(steal), `${calmRuns} of ${runs}`]
}

function delaysTable(delays) {
  const head = ['µs', 'head p50', 'head p99', 'event p50', 'event p99', 'Steal', 'Calm runs']
  const direct = delays.find(({ name }) => name === 'direct')
  const rows = delays
    .filter((each) => each !== direct)
    .map((each) => [
      `added by ${nameOf(each)}`,
      ...(each.isMissing ? ['not installed', '', '', ''] : delayCells(each.added)),
      ...runCells(each),
    ])
  return table(head, [['direct', ...delayCells(direct), ...runCells(direct)], ...rows])
}

function delayCells(delay) {
  if (delay?.headP50Us === undefined) return ['stolen time', '', '', '']
  return [delay.headP50Us, delay.headP99Us, delay.eventP50Us, delay.eventP99Us].map(cell)
}

function runCells({ isMissing, steal, runs, calmRuns }) {
  return isMissing ? ['', ''] : [formatSteal(steal), `${calmRuns} of ${runs}`]
}

function nameOf({ name }) {
  return name.replace(/^edge/, '`edge`').replace('node:http wire', 'on `node:http`').replace('`edge`, on', '`edge` on')
}

function cell(us) {
  return us === undefined ? '' : whole(us)
}

function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, i) => (i === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n')
}
