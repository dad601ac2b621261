// The results as tables in Markdown: printed by the benchmark, and inserted into docs/comparison.md between marks that name them.
import { whole } from '../support/numbers.mjs'
import { MAX_STEAL_SHARE } from '../support/steal.mjs'

/** Others that use more than this share of the cores can be told from the figures. */
const MOST_OF_OTHERS = 0.1

/** By part, each a text: its tables, and how the machine was meanwhile. */
export const TABLES = Object.fromEntries(
  Object.entries({ parallel, aborts, silent, redis, agents, money, cost }).map(([name, tables]) => [
    name,
    (part) => `${tables(part)}\n\n${machineNote(part)}`,
  ]),
)

/** Tables stand between `<!-- budgets NAME -->` and `<!-- end -->`. */
export function insertTables(page, { parts }) {
  return page.replace(/(<!-- budgets (\w+) -->\n).*?(<!-- end -->)/gs, (old, begin, name, end) =>
    parts[name] === undefined ? old : `${begin}\n${TABLES[name](parts[name])}\n\n${end}`,
  )
}

function machineNote({ date, othersShare, stealShare, rounds }) {
  const measured = `${rounds === undefined ? 'Measured' : `Medians of ${rounds} rounds,`} on ${date}`
  const note = `${measured}. Before and after, other programs used ${percent(othersShare)} of the cores, and other guests took ${percent(stealShare)} meanwhile.`
  return isRough({ othersShare, stealShare }) ? `${note} **Rough: the machine was busy with something else.**` : note
}

/** Whether others had the cores too. Shares before and after a part are those of the time in which the benchmark's own servers are idle. */
export function isRough({ othersShare, stealShare }) {
  return othersShare > MOST_OF_OTHERS || stealShare > MAX_STEAL_SHARE
}

function parallel({ cases, rows }) {
  const counts = [...new Set(rows.map(({ count }) => count))]
  return counts.map((count) => parallelTable(count, cases, rows)).join('\n\n')
}

function money({ cases, rows, money: budget }) {
  return parallelTable(rows[0].count, cases, rows, `a budget of $${budget.toFixed(2)}`)
}

function parallelTable(count, cases, allRows, budgetText) {
  const rows = allRows.filter((row) => row.count === count)
  const [{ budget, cells: shape }] = rows
  const titleOf = (id) => cases.find((each) => each.id === id).title
  const head = shape.map((cell) => `${titleOf(cell.case)}, ${cell.isStream ? 'streams' : 'whole'}`)
  return table(
    [`${count} at once, ${budgetText ?? `a budget of ${whole(budget)}`}`, ...head],
    rows.map(({ name, cells }) => [name, ...cells.map(parallelCell)]),
  )
}

function parallelCell({ isMissing, factor, falselyRejected, cut, failed }) {
  if (isMissing) return 'not installed'
  const notes = [cut > 0 && `${cut} cut`, failed > 0 && `${failed} failed`].filter(Boolean)
  return [`${factor > 1.05 ? `**${factor.toFixed(2)}**` : factor.toFixed(2)} · ${falselyRejected}`, ...notes].join(', ')
}

function aborts({ count, cases, rows }) {
  const ids = [...new Set(rows.map(({ id }) => id))]
  return table(
    [`${count} clients hang up`, ...cases.map(({ title }) => title)],
    ids.map((id) => {
      const own = rows.filter((row) => row.id === id)
      return [own[0].name, ...cases.map((each) => abortCell(own.find((row) => row.case === each.id)))]
    }),
  )
}

function abortCell({ isMissing, generated, charged, served }) {
  return isMissing ? 'not installed' : `${whole(generated)} generated, ${whole(charged)} charged${served === 0 ? '; calls ended' : ''}`
}

function silent({ texts, rows }) {
  const names = rows.map(({ name, isStream }) => `${name}, ${isStream ? 'streams' : 'whole'}`)
  return table(
    ['Text', 'Tokens', ...names],
    texts.map(({ name, tokens }) => [
      name,
      whole(tokens),
      ...rows.map(({ isMissing, charged }) =>
        isMissing ? 'not installed' : `${whole(charged[name])} (${percent(charged[name] / tokens)})`,
      ),
    ]),
  )
}

function redis({ perSecond, seconds, rows }) {
  return table(
    [
      'Redis stopped',
      'Admitted : budget',
      `Admitted while stopped, of ${perSecond * seconds.stopped}`,
      'Failed while stopped',
      'p50',
      'p99',
      'longest wait of all',
    ],
    rows.map(({ name, isMissing, factor, stoppedAdmitted, stoppedFailed, p50Ms, p99Ms, maxMs }) =>
      isMissing
        ? [name, 'not installed', '', '', '', '', '']
        : [name, factor.toFixed(2), String(stoppedAdmitted), String(stoppedFailed), ...[p50Ms, p99Ms, maxMs].map(duration)],
    ),
  )
}

function agents({ requests, rows }) {
  return table(
    ['Ten agents', `Passed, of ${requests}`, 'Falsely rejected', 'Told to wait', 'Longest response'],
    rows.map(({ name, isStream, isMissing, passed, falselyRejected, retryAfter, longestMs }) => {
      const title = `${name}, ${isStream ? 'streams' : 'whole'}`
      if (isMissing) return [title, 'not installed', '', '', '']
      return [title, String(passed), String(falselyRejected), waits(retryAfter), duration(longestMs)]
    }),
  )
}

function cost({ kinds, openStreams, rows }) {
  const [whole20, streams] = kinds
  return table(
    [
      'One core',
      `CPU a request, ${whole20.perSecond}/s`,
      'added, p50 and p99',
      `CPU a stream, ${streams.perSecond}/s`,
      'added to the first event, p50 and p99',
      `Memory idle, and with ${openStreams} streams`,
      'a stream',
    ],
    rows.map((row) => costRow(row, openStreams)),
  )
}

function costRow({ id, name, isMissing, whole: json, streams, idleMb, mostMb }, openStreams) {
  if (isMissing) return [name, 'not installed', '', '', '', '', '']
  if (id === 'direct') return [name, '', `(${ms(json.p50Ms)})`, '', `(${ms(streams.p50Ms)})`, '', '']
  const cpu = ({ cpuMs, cpuRatio }) => `${ms(cpuMs)}${cpuRatio === undefined ? '' : ` (${times(cpuRatio)} nginx)`}`
  const added = ({ addedP50Ms, addedP99Ms }) => `${ms(addedP50Ms)}, ${ms(addedP99Ms)}`
  const aStream = `${whole(((mostMb - idleMb) * 1024) / openStreams)} KB`
  return [name, cpu(json), added(json), cpu(streams), added(streams), `${whole(idleMb)} MB, ${whole(mostMb)} MB`, aStream]
}

function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, i) => (i === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n')
}

function waits(retryAfter) {
  if (retryAfter === undefined) return ''
  const [least, most] = retryAfter
  return least === most ? `${least} s` : `${least} to ${most} s`
}

function ms(value) {
  return `${value < 10 ? value.toFixed(2) : value.toFixed(1)} ms`
}

function duration(value) {
  return value < 1000 ? `${value.toFixed(0)} ms` : `${(value / 1000).toFixed(1)} s`
}

function times(value) {
  return `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ×`
}

function percent(share) {
  return `${(100 * share).toFixed(0)} %`
}
