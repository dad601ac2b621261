import { renameSync, utimesSync, writeFileSync } from 'node:fs'
import { until } from '../until.ts'

type LogEntry = Readonly<Record<string, unknown>>

/** A service in this process or in one of its own. */
interface Offered {
  readonly log: readonly LogEntry[]
  readonly bundlePath: string
}

const VERDICTS = new Set<unknown>(['bundle_applied', 'bundle_refused', 'bundle_unchanged', 'bundle_unreadable'])

/** Longer than a service waits for a file to come to rest. */
const AGE_S = 60

/** Puts the file there in one step, as deployment tools do, with the time of its source: it is at rest, and taken at the first look. */
export async function replaceFile(path: string, content: string | Buffer): Promise<void> {
  writeFileSync(`${path}.new`, content)
  const longAgoS = Date.now() / 1000 - AGE_S
  utimesSync(`${path}.new`, longAgoS, longAgoS)
  renameSync(`${path}.new`, path)
}

/** Replaces the bundle and waits for what the running service says of it. */
export async function offer(edge: Offered, content: string | Buffer | object): Promise<LogEntry> {
  const bytes = typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content)
  return verdictAfter(edge, () => replaceFile(edge.bundlePath, bytes))
}

/** What the service says of its bundle file once `change` was made. */
export async function verdictAfter(edge: Offered, change: () => Promise<unknown>): Promise<LogEntry> {
  const seen = edge.log.length
  await change()
  let verdict: LogEntry | undefined
  await until(() => {
    verdict = edge.log.slice(seen).find(({ event }) => VERDICTS.has(event))
    return verdict !== undefined
  })
  return verdict!
}
