import type { KeyJson } from '../../admin/api/key-types.ts'
import { sortedLabels } from '../../callers/keys/issued-key.ts'
import { printableText } from '../../text/printable.ts'
import { type AdminClient, AdminRefusal, type AdminRequest } from '../admin/admin-client.ts'
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
  /** Set if the key may have been revoked so long ago that it is not listed. */
  readonly created?: { readonly id: string; readonly file: FileKey }
}

/** A line of the file whose key is revoked, by number. */
type RevokedLine = readonly [number: number, problem: string]

/** Requests under way at a time. The instance writes what comes together to its disk at once. */
const AT_ONCE = 16

/**
 * Makes the keys of an instance those of a file, as far as the file names them. To import it again changes nothing. Lines of revoked keys are reported, and
 * the import fails in the end: a file that keeps them would bring the keys back wherever nobody knows that they were revoked.
 */
export async function importKeys(client: AdminClient, order: ImportOrder): Promise<void> {
  const wanted = await readKeyFile(order.file)
  const { differences, surplus, revoked, expired } = await differencesOf(client, wanted, order)
  const done = order.isDryRun ? await withoutRevoked(client, differences, revoked) : await sendAll(client, differences, revoked)
  const outcome = order.isDryRun ? 'Nothing was changed. Differences' : 'Changes'
  process.stdout.write(`${outcome}: ${done}\n`)
  if (surplus > 0) process.stdout.write(`Keys that are not in the file: ${surplus}; --prune revokes them\n`)
  if (expired > 0) process.stdout.write(`Keys of the file that have expired: ${expired}; their lines can be removed\n`)
  if (revoked.length === 0) return
  for (const [number, problem] of revoked.sort(([a], [b]) => a - b))
    process.stderr.write(`${printableText(`line ${number}: ${problem}; remove the line`)}\n`)
  throw new AdminProblem(printableText(`${order.file}: lines of revoked keys, which stay revoked: ${revoked.length}`))
}

async function differencesOf(client: AdminClient, wanted: Map<string, FileKey>, { reason, prune }: ImportOrder) {
  const differences: Difference[] = []
  const revoked: RevokedLine[] = []
  let [surplus, expired] = [0, 0]
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
      } else if (key.status === 'revoked') revoked.push([file.line, revokedText(key)])
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
    differences.push({ line: `+ ${id} ${labelsText(labels)}`, request: { method: 'POST', path: 'keys', body }, created: { id, file } })
  }
  return { differences, surplus, revoked, expired }
}

function revokedText({ id, edited }: KeyJson): string {
  return `key ${id} was revoked at ${edited!.at} by ${edited!.actor} (${edited!.reason})`
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

/** Prints the differences, and returns their number. Asks about the keys that are not listed, of which only that they were revoked may be known. */
async function withoutRevoked(client: AdminClient, differences: readonly Difference[], revoked: RevokedLine[]): Promise<number> {
  const isRevoked = await eachAtOnce(differences, async ({ created }) => {
    if (created === undefined) return false
    const request: AdminRequest = { method: 'GET', path: `keys/${created.id}` }
    return client.ask(request).then(
      () => false,
      (error: unknown) => {
        if (error instanceof AdminRefusal && error.code === 'unknown_key') return false
        return noteRevoked(error, created, revoked)
      },
    )
  })
  const left = differences.filter((_, i) => !isRevoked[i])
  for (const { line } of left) printLine(line)
  return left.length
}

/** Stops at the first problem that is not about one line. What was done stays, and the next import goes on from there. Returns how many changes were made. */
async function sendAll(client: AdminClient, differences: readonly Difference[], revoked: RevokedLine[]): Promise<number> {
  let done = 0
  try {
    await eachAtOnce(differences, async ({ line, request, created }) => {
      try {
        await client.ask(request)
      } catch (error) {
        return noteRevoked(error, created, revoked)
      }
      printLine(line)
      return done++
    })
    return done
  } catch (error) {
    const { message } = error as Error
    throw new AdminProblem(`${message}; ${done} of ${differences.length} changes were made, and another import goes on from there`, {
      cause: error,
    })
  }
}

/** Notes the line of a key that was revoked so long ago that it is not listed; throws any other error. */
function noteRevoked(error: unknown, created: Difference['created'], revoked: RevokedLine[]): true {
  if (created === undefined || !(error instanceof AdminRefusal) || error.code !== 'key_revoked') throw error
  revoked.push([created.file.line, `key ${created.id} was revoked more than 30 days ago`])
  return true
}

/** Does this with all of them, some at a time. After the first error none is begun. */
async function eachAtOnce<Item, Result>(items: readonly Item[], work: (item: Item) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = []
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < items.length) {
      const i = next++
      results[i] = await work(items[i]!).catch((error: unknown) => {
        next = items.length
        throw error
      })
    }
  }
  const lanes = await Promise.allSettled(Array.from({ length: AT_ONCE }, lane))
  const failed = lanes.find((each) => each.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return results
}

function printLine(line: string): void {
  process.stdout.write(`${printableText(line)}\n`)
}

function timeText(ms: number): string {
  return new Date(ms).toISOString()
}
