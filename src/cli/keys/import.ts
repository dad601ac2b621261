import type { KeyJson } from '../../admin/api/key-types.ts'
import { sortedLabels } from '../../callers/keys/issued-key.ts'
import { printableText } from '../../text/printable.ts'
import type { AdminClient, AdminRequest } from '../admin/admin-client.ts'
import { AdminProblem } from '../text/caller-values.ts'
import { type FileKey, readKeyFile } from './key-file.ts'
import { allKeys, labelsText } from './key-list.ts'

export interface ImportOrder {
  readonly file: string
  readonly reason: string
  /** Whether to revoke the keys that are not in the file. */
  readonly prune: boolean
  readonly isDryRun: boolean
}

/** A difference between the file and the instance, and what makes it go away. */
interface Difference {
  readonly line: string
  readonly request: AdminRequest
}

/** Requests under way at a time. The instance writes what comes together to its disk at once. */
const AT_ONCE = 16

/** Makes the keys of an instance those of a file, as far as the file names them. To import it again changes nothing. */
export async function importKeys(client: AdminClient, order: ImportOrder): Promise<void> {
  const wanted = await readKeyFile(order.file)
  const { differences, surplus, revoked, expired } = await differencesOf(client, wanted, order)
  for (const { line } of differences) process.stdout.write(`${printableText(line)}\n`)
  if (!order.isDryRun) await sendAll(client, differences)
  const outcome = order.isDryRun ? 'Nothing was changed. Differences' : 'Changes'
  process.stdout.write(`${outcome}: ${differences.length}\n`)
  if (surplus > 0) process.stdout.write(`Keys that are not in the file: ${surplus}; --prune revokes them\n`)
  if (revoked > 0) process.stdout.write(`Keys of the file that are revoked, and stay so: ${revoked}\n`)
  if (expired > 0) process.stdout.write(`Keys of the file that have expired: ${expired}; their lines can be removed\n`)
}

async function differencesOf(client: AdminClient, wanted: Map<string, FileKey>, { reason, prune }: ImportOrder) {
  const differences: Difference[] = []
  let [surplus, revoked, expired] = [0, 0, 0]
  const nowMs = Date.now()
  const missing = new Map(wanted)
  for await (const { page } of allKeys(client, {})) {
    for (const key of page.keys) {
      const file = wanted.get(key.id)
      missing.delete(key.id)
      if (file === undefined) {
        if (key.status === 'revoked') continue
        if (prune) differences.push(revocationOf(key, reason))
        else surplus++
      } else if (key.status === 'revoked') revoked++
      else if (isOver(file, nowMs)) {
        expired++
        // Nobody can give a key an end that has passed.
        if (key.status === 'active') differences.push(revocationOf(key, reason))
      } else {
        const change = changeOf(key, file)
        if (change !== undefined)
          differences.push({
            line: `~ ${key.id} ${change.text}`,
            request: { method: 'PATCH', path: `keys/${key.id}`, body: { ...change.body, reason } },
          })
      }
    }
  }
  for (const [id, file] of missing) {
    const { digest, labels, expiresMs } = file
    if (isOver(file, nowMs)) {
      expired++
      continue
    }
    const body = { digest, labels, ...(expiresMs !== undefined && { expires_at: timeText(expiresMs) }), reason }
    differences.push({ line: `+ ${id} ${labelsText(labels)}`, request: { method: 'POST', path: 'keys', body } })
  }
  return { differences, surplus, revoked, expired }
}

/** A file grows old: the lines of keys that have expired must not stand in the way of the others. */
function isOver({ expiresMs }: FileKey, nowMs: number): boolean {
  return expiresMs !== undefined && expiresMs <= nowMs
}

function revocationOf({ id, labels }: KeyJson, reason: string): Difference {
  return { line: `- ${id} ${labelsText(labels)}`, request: { method: 'DELETE', path: `keys/${id}`, query: { reason } } }
}

function changeOf(key: KeyJson, { labels, expiresMs }: FileKey): { readonly text: string; readonly body: object } | undefined {
  const isRelabelled = JSON.stringify(sortedLabels(key.labels)) !== JSON.stringify(labels)
  const thereMs = key.expires_at === null ? undefined : Date.parse(key.expires_at)
  const expires_at = expiresMs === undefined ? null : timeText(expiresMs)
  if (!isRelabelled && thereMs === expiresMs) return undefined
  const texts: string[] = []
  if (isRelabelled) texts.push(`${labelsText(key.labels)} -> ${labelsText(labels)}`)
  if (thereMs !== expiresMs) texts.push(`expires ${key.expires_at ?? 'never'} -> ${expires_at ?? 'never'}`)
  return { text: texts.join(', '), body: { ...(isRelabelled && { labels }), ...(thereMs !== expiresMs && { expires_at }) } }
}

/** Stops at the first problem. What was done stays, and the next import goes on from there. */
async function sendAll(client: AdminClient, differences: readonly Difference[]): Promise<void> {
  let next = 0
  let done = 0
  const lane = async (): Promise<void> => {
    while (next < differences.length) {
      await client.ask(differences[next++]!.request)
      done++
    }
  }
  const lanes = await Promise.allSettled(Array.from({ length: AT_ONCE }, lane))
  const failed = lanes.find((each) => each.status === 'rejected')
  if (failed === undefined) return
  const problem = failed.reason as Error
  throw new AdminProblem(`${problem.message}; ${done} of ${differences.length} changes were made, and another import goes on from there`, {
    cause: problem,
  })
}

function timeText(ms: number): string {
  return new Date(ms).toISOString()
}
