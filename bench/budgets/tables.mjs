// The results as tables in Markdown: printed by the benchmark, and inserted into docs/comparison.md between marks that name them.
import { whole } from '../support/numbers.mjs'

/** By part, each a text. */
export const TABLES = { parallel, aborts, silent, redis, agents, cost }

/** Tables stand between `<!-- budgets NAME -->` and `<!-- end -->`. */
export function insertTables(page, { parts }) {
  return page.replace(/(<!-- budgets (\w+) -->\n).*?(<!-- end -->)/gs, (old, begin, name, end) =>
    parts[name] === undefined ? old : `${begin}\n${TABLES[name](parts[name])}\n\n${end}`,
  )
}

function parallel({ cases, rows }) {
  const counts = [...new Set(rows.map(({ count }) => count))]
  return counts.map((count) => parallelTable(count, cases, rows)).join('\n\n')
}

function parallelTable(count, cases, allRows) {
  const rows = allRows.filter((row) => row.count === count)
  const [{ budget, cells: shape }] = rows
  const titleOf = (id) => cases.find((each) => each.id === id).title
  const head = shape.map((cell) => `${titleOf(cell.case)}, ${cell.isStream ? 'streams' : 'whole'}`)
  return table(
    [`${count} at once, a budget of ${whole(budget)}`, ...head],
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

function redis({ rows }) {
  return table(
    ['Redis stopped', 'Admitted : budget', 'Failed while stopped', 'p50', 'p99', 'longest wait of all'],
    rows.map(({ name, isMissing, factor, stoppedFailed, p50Ms, p99Ms, maxMs }) =>
      isMissing
        ? [name, 'not installed', '', '', '', '']
        : [name, factor.toFixed(2), String(stoppedFailed), ...[p50Ms, p99Ms, maxMs].map(duration)],
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

function cost({ kinds, openStreams, rows, rounds, load, steal }) {
  const [whole20, streams] = kinds
  const figures = table(
    [
      'One core',
      `CPU a request, ${whole20.perSecond}/s`,
      'added, p50',
      `CPU a stream, ${streams.perSecond}/s`,
      'added to the first event, p50',
      `Memory idle, and with ${openStreams} streams`,
    ],
    rows.map(costRow),
  )
  const machine = `Medians of ${rounds} rounds. The machine's load before was ${load.toFixed(1)}, and its steal at most ${percent(steal.most)}.`
  return `${figures}\n\n${machine}${isRough(load) ? ' **Rough: it was busy with something else, so no delay here says anything.**' : ''}`
}

/** Whether others had the cores too. The benchmark's own servers are idle at that moment. */
export function isRough(load) {
  return load > 2
}

function costRow({ id, name, isMissing, whole: json, streams, idleMb, mostMb }) {
  if (isMissing) return [name, 'not installed', '', '', '', '']
  if (id === 'direct') return [name, '', `(${ms(json.p50Ms)})`, '', `(${ms(streams.p50Ms)})`, '']
  const cpu = ({ cpuMs, cpuRatio }) => `${ms(cpuMs)}${cpuRatio === undefined ? '' : ` (${times(cpuRatio)} nginx)`}`
  return [name, cpu(json), ms(json.addedP50Ms), cpu(streams), ms(streams.addedP50Ms), `${whole(idleMb)} MB, ${whole(mostMb)} MB`]
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
