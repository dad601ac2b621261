import { readFileSync } from 'node:fs'
import { stripVTControlCharacters } from 'node:util'

/** How many last lines are shown if no test has failed, because the reason is usually among them. */
const LAST_LINES = 15

export function runLine({ condition, isPassed, status, facts, load, wallMs, cpuMs, stolen, log }) {
  const lines = linesOf(log)
  const others = stolen === undefined ? '' : `, ${Math.round(stolen * 100)} % stolen by the host`
  const figures = `${seconds(wallMs)} s wall, ${seconds(cpuMs)} s CPU (load before: ${load}${others})`
  const place = `node ${facts.node}, user ${facts.uid}, ${facts.cores} core${facts.cores === 1 ? '' : 's'}, interfaces ${facts.interfaces}, TMPDIR ${facts.tmpdir}, redis-server ${facts.redis ?? 'missing'}`
  const outcome = isPassed ? 'passed' : `FAILED (${status})`
  const failures = isPassed ? [] : failuresIn(lines).map((failure) => `    ${failure}`)
  return [`${condition}: ${outcome}, ${figures}`, `  ${place}`, `  ${summaryIn(lines)}`, `  ${log}`, ...failures].join('\n')
}

export function skipLine({ condition, skip }) {
  return `${condition}: SKIPPED: ${skip}`
}

/** Prints one row for each condition. */
export function printTable(runs) {
  const rows = [...new Set(runs.map(({ condition }) => condition))].map((condition) => {
    const its = runs.filter((run) => run.condition === condition)
    if (its[0].skip !== undefined) return [condition, '0', '', '', '', '', `SKIPPED: ${its[0].skip}`]
    const passed = its.filter(({ isPassed }) => isPassed).length
    const [wall, cpu] = [range(its.map(({ wallMs }) => wallMs)), range(its.map(({ cpuMs }) => cpuMs))]
    return [condition, its.length, passed, its.length - passed, wall, cpu, summaryIn(linesOf(its.at(-1).log))]
  })
  const table = [['condition', 'runs', 'passed', 'failed', 'wall s', 'CPU s', 'last run'], ...rows]
  const widths = table[0].map((_, column) => Math.max(...table.map((row) => String(row[column]).length)))
  console.log('')
  for (const row of table)
    console.log(
      row
        .map((cell, column) => String(cell).padEnd(widths[column]))
        .join('  ')
        .trimEnd(),
    )
}

function range(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)].map(seconds)
  return least === most ? least : `${least} to ${most}`
}

function seconds(ms) {
  return (ms / 1000).toFixed(0)
}

/** Returns Vitest's summary lines; a command that runs it twice has them twice. */
function summaryIn(lines) {
  const found = lines.flatMap((line) => /^ *(Test Files|Tests) +(.*)$/.exec(line)?.slice(1, 3).join(' ') ?? [])
  return found.length > 0 ? found.join('; ') : 'no summary of vitest in the log'
}

function failuresIn(lines) {
  const failures = lines.filter(
    (line) => /^ *FAIL /.test(line) || /^ *(Unhandled|Uncaught) |error TS\d+|^FAILED: |^ {2}(process|file) /.test(line),
  )
  const unique = [...new Set(failures.map((line) => line.trim()))]
  return unique.length > 0 ? unique : lines.filter((line) => line.trim() !== '').slice(-LAST_LINES)
}

function linesOf(log) {
  return stripVTControlCharacters(readFileSync(log, 'utf8')).split('\n')
}
