import type { ProblemJson } from '../admin/api/instance-types.ts'

/** What a worker reports of a backend that has sent nothing to some requests for longer than EDGE_SILENT_SECONDS. */
export interface SilentBackend {
  readonly name: string
  readonly count: number
  readonly longestMs: number
}

/** The code of the problem. It is no event: the instance finds it when it is asked. */
export const REQUESTS_SILENT = 'requests_silent'

/** Makes a problem of the reports of all workers, or none if no request is silent. */
export function silentProblems(reports: readonly SilentBackend[], silentMs: number, wallMs: number): ProblemJson[] {
  if (reports.length === 0) return []
  const byBackend = new Map<string, number>()
  for (const { name, count } of reports) byBackend.set(name, (byBackend.get(name) ?? 0) + count)
  const counts = [...byBackend].sort(([, a], [, b]) => b - a)
  const longestMs = Math.max(...reports.map((report) => report.longestMs))
  const all = counts.reduce((sum, [, count]) => sum + count, 0)
  const requests = all === 1 ? '1 request has' : `${all} requests have`
  const longest = all === 1 ? `for ${seconds(longestMs)}` : `for over ${seconds(silentMs)}, the longest for ${seconds(longestMs)}`
  const named = counts.slice(0, MAX_NAMED).map(([name, count]) => (counts.length === 1 ? `backend ${name}` : `backend ${name} (${count})`))
  const rest = counts.length > MAX_NAMED ? [`${counts.length - MAX_NAMED} more`] : []
  const message = `${requests} been silent ${longest}: ${[...named, ...rest].join(', ')}`
  return [{ code: REQUESTS_SILENT, message, since: new Date(wallMs - longestMs).toISOString(), details: [], details_in_all: 0 }]
}

const MAX_NAMED = 5

function seconds(ms: number): string {
  return `${ms < 10_000 ? Number((ms / 1000).toPrecision(2)) : Math.floor(ms / 1000)} s`
}
