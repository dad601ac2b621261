import { rename, writeFile } from 'node:fs/promises'
import { until } from '../until.ts'

type LogEntry = Readonly<Record<string, unknown>>

/** A service in this process or in one of its own. */
interface Offered {
  readonly log: readonly LogEntry[]
  readonly bundlePath: string
}

const VERDICTS = new Set<unknown>(['bundle_applied', 'bundle_refused', 'bundle_unchanged', 'bundle_unreadable'])

/** Puts the file there in one step, as editors and deployment tools do. */
export async function replaceFile(path: string, content: string | Buffer): Promise<void> {
  await writeFile(`${path}.new`, content)
  await rename(`${path}.new`, path)
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
