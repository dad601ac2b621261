import { createHash } from 'node:crypto'
import { constants, copyFile, realpath, rm, stat } from 'node:fs/promises'
import { basename, isAbsolute, normalize, resolve, sep } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type {
  BundleAnnouncement,
  BundleListJson,
  BundleReportJson,
  BundleTextJson,
  PastBundleJson,
} from '../../admin/api/instance-types.ts'
import { MAX_BUNDLE_BYTES } from '../../bundle/bundle-source.ts'
import { readInThread } from '../../bundle/read-in-thread.ts'
import { rolledBackText } from '../../bundle/rolled-back-text.ts'
import { readFileBounded, replaceFile } from '../../files/whole-file.ts'
import { formatOf } from '../../policy/schema/bundle.ts'
import { printableText } from '../../text/printable.ts'
import { readingProblem, writingProblem } from '../file-problem.ts'
import { AdminProblem } from '../text/caller-values.ts'
import type { AdminClient } from './admin-client.ts'
import { askBundle, askBundles, terminalText } from './bundle.ts'
import { shellQuoted } from './next-commands.ts'

export interface RollbackOrder {
  /** Undefined: the version before the active one. */
  readonly to: string | undefined
  /** Undefined: the text is printed. */
  readonly publish: { readonly file: string; readonly reason: string } | undefined
}

/** Where to go back to, and from where. */
interface Way {
  readonly report: BundleReportJson
  readonly active: NonNullable<BundleReportJson['bundle']>
  /** The version whose policies are wanted. */
  readonly of: PastBundleJson
  /** The version that they get. */
  readonly version: string
  /** As it was typed, for commands that go on from here. */
  readonly order: RollbackOrder
}

/** Prints the policies of an earlier bundle under the next version, or publishes them. */
export async function rollBack(client: AdminClient, order: RollbackOrder): Promise<void> {
  const way = await findWay(client, order)
  if (order.publish === undefined) return print(client, way)
  const obstacle = await obstacleTo(order.publish.file, way)
  if (obstacle !== undefined) throw new AdminProblem(printableText(`nothing is published: ${obstacle}`))
  await publish(client, order.publish, way)
}

async function findWay(client: AdminClient, order: RollbackOrder): Promise<Way> {
  const report = await askBundle(client)
  const { bundle: active, source } = report
  if (active === null) throw new AdminProblem('no bundle is active, so there is none to go back from')
  const version = nextVersion(active.version, source?.refused?.version ?? '0')
  const bundles = await askBundles(client)
  const to = order.to === undefined ? undefined : BigInt(order.to).toString()
  const of = earlierOf(bundles, active.version, to, version)
  if (to === undefined) refuseUndone(bundles, of)
  return { report, active, of, version, order }
}

/** Above what is active, and above what the source has: other instances may have taken that. */
function nextVersion(active: string, offered: string): string {
  const [one, other] = [BigInt(active), BigInt(offered)]
  return ((one > other ? one : other) + 1n).toString()
}

function earlierOf(bundles: BundleListJson['bundles'], active: string, to: string | undefined, next: string): PastBundleJson {
  if (to === active) throw new AdminProblem(`version ${to} is active`)
  const earlier = bundles.filter(({ version }) => version !== active)
  const found = to === undefined ? earlier[0] : earlier.find(({ version }) => version === to)
  if (found?.has_text) return found
  if (found !== undefined) throw new AdminProblem(`the text of version ${found.version} is not kept any more: ${byHand(next)}`)
  if (earlier.length === 0) throw new AdminProblem(`no other bundle was active since the instance started: ${byHand(next)}`)
  const kept = earlier.map(({ version }) => version).join(', ')
  throw new AdminProblem(`version ${to} is not among those that the instance still has (${kept}): ${byHand(next)}`)
}

function byHand(next: string): string {
  return `take the old policies from where you keep your bundles, and publish them with bundle_version ${next}`
}

/**
 * Nobody goes back to policies that were rolled back themselves without saying so: a rollback that is done again, by somebody else or after a timeout, would
 * bring back what the first one undid. A version is undone where a later one has the policies of an earlier one again. There are ten of them.
 */
function refuseUndone(bundles: BundleListJson['bundles'], of: PastBundleJson): void {
  const wayOut = 'To go back all the same, or further, name a version with --to'
  if (isAlike(bundles[0]!, of)) throw new AdminProblem(`version ${bundles[0]!.version} has the same policies as ${of.version}. ${wayOut}`)
  for (const [i, undoing] of bundles.entries())
    for (const [j, undone] of bundles.entries()) {
      const earlier = j > i && !isAlike(undone, undoing) ? bundles.slice(j + 1).find((one) => isAlike(one, undoing)) : undefined
      if (earlier === undefined || !(undone === of || isAlike(undone, of))) continue
      const again = undone === of ? '' : `, whose policies ${of.version} has again`
      throw new AdminProblem(
        `version ${undoing.version} already has the policies of ${earlier.version}: it is what undid ${undone.version}${again}. ${wayOut}`,
      )
    }
}

function isAlike(one: PastBundleJson, other: PastBundleJson): boolean {
  return one.policies_hash !== undefined && one.policies_hash === other.policies_hash
}

/** As it came, because what is published must have the credentials that its rules match. */
async function askText(client: AdminClient, { of, version }: Way): Promise<string> {
  const response = await client.ask({ method: 'GET', path: `bundles/${of.version}`, query: { credentials: 'clear' } })
  const { text, format } = response.json as BundleTextJson
  try {
    return await rolledBackText(text, format, version, readInThread)
  } catch (error) {
    throw new AdminProblem(`bundle ${of.version}: ${(error as Error).message}`, { cause: error })
  }
}

async function print(client: AdminClient, way: Way): Promise<void> {
  process.stdout.write(terminalText(await askText(client, way)))
  const { version, of } = way
  note(`this is version ${version} with the policies of ${of.version}; it is not published: ${remainingSteps(way)}`)
  if (of.has_credentials)
    note('the text has in clear the credentials that its rules match: keep it as safe as the bundle. edge changes says who has read it')
}

function note(sentence: string): void {
  process.stderr.write(printableText(`edge rollback: ${sentence}`).concat('\n'))
}

function remainingSteps({ report: { source }, order }: Way): string {
  if (source === null) return 'the instance reads no file and no URL'
  const place = source.url ?? source.path
  if (source.signature_required)
    return `the instance takes signed bundles only. Put it into a file, sign that with edge sign --key KEY FILE, and put both where ${place} comes from`
  if (source.url !== null) return `the instance reads a URL. Put it where ${place} comes from`
  return `${publishCommand(source.path!, order)} does that`
}

function publishCommand(file: string, order: RollbackOrder): string {
  const reason = order.publish === undefined ? "'why'" : shellQuoted(order.publish.reason)
  return `${printCommand(order)} --publish ${shellQuoted(file)} --reason ${reason}`
}

function printCommand({ to }: Pick<RollbackOrder, 'to'>): string {
  return `edge rollback${to === undefined ? '' : ` --to ${to}`}`
}

/** Why the text cannot be written to this file, and what to do instead, without the text; undefined where it can. */
async function obstacleTo(file: string, { report: { source }, active, of: { format }, order }: Way): Promise<string | undefined> {
  const named = shellQuoted(source?.path ? basename(source.path) : `limits.${format}`)
  const byHand = `${printCommand(order)} > ${named}`
  if (source === null) return `the instance reads no file and no URL. For the text: ${byHand}`
  const place = source.url ?? source.path
  if (source.signature_required)
    return `the instance takes signed bundles only. To go back: ${byHand} && edge sign --key KEY ${named}, and put both files where ${place} comes from`
  if (source.url !== null) return `the instance reads a URL. To go back: ${byHand}, and put that file where ${place} comes from`
  if (!(await isSameFile(file, source.path!)))
    return `the instance reads ${source.path}, not ${file}. To go back: ${publishCommand(source.path!, order)}`
  if (formatOf(file) !== format)
    return `the bundle is ${format === 'yaml' ? 'YAML' : 'JSON'}, which the name ${file} does not say. For the text: ${printCommand(order)} > ${shellQuoted(`limits.${format}`)}`
  let bytes: Buffer
  try {
    bytes = await readFileBounded(file, MAX_BUNDLE_BYTES)
  } catch (error) {
    return `${file}: ${readingProblem(error)}`
  }
  // A file of the same name on another machine may have something else in it than what the instance has taken or refused.
  const hash = hashOf(bytes)
  if (hash === active.hash || hash === source.refused?.hash || (source.problem !== null && isAbsolute(source.path!))) return undefined
  if (source.problem !== null)
    return `${file} is not what the instance has read, and the instance names its file by a relative path, so this may be another one. Run this on the machine of the instance, or again in a second if it has just changed. For the text: ${printCommand(order)} > ${shellQuoted(`rollback.${format}`)}`
  return `${file} does not have the active bundle. Run this on the machine of the instance, or again in a second if it has just changed`
}

function hashOf(content: Uint8Array | string): string {
  return createHash('sha256').update(content).digest('hex')
}

/** The service may have been started in another directory: then the end of the path must be the same. */
async function isSameFile(file: string, source: string): Promise<boolean> {
  const given = resolve(file)
  if (!isAbsolute(source)) return given.endsWith(`${sep}${normalize(source)}`)
  if (given === resolve(source)) return true
  const [one, other] = await Promise.all([given, source].map((path) => realpath(path).catch(() => undefined)))
  return one !== undefined && one === other
}

async function publish(client: AdminClient, { file, reason }: NonNullable<RollbackOrder['publish']>, way: Way): Promise<void> {
  const text = await askText(client, way)
  await announce(client, { hash: hashOf(text), reason })
  const kept = await keepAndReplace(file, text)
  const hadActive = hashOf(await readFileBounded(kept, MAX_BUNDLE_BYTES)) === way.active.hash
  if (!hadActive) note(`what ${file} had is in ${kept}`)
  try {
    await untilActive(client, file, hashOf(text), way)
  } catch (error) {
    const where = hadActive ? `. What ${file} had is in ${kept}` : ''
    throw new AdminProblem(printableText(`${(error as Error).message}${where}`), { cause: error })
  }
  // The instance still has what this file had.
  if (hadActive) await rm(kept, { force: true })
  process.stdout.write(`Version ${way.version} is active, with the policies of ${way.of.version}.\n`)
}

/** The list of changes will say who has published it, and why. */
async function announce(client: AdminClient, body: BundleAnnouncement): Promise<void> {
  try {
    await client.ask({ method: 'POST', path: 'bundles/announcements', body })
  } catch (error) {
    throw new AdminProblem(`nothing was changed: ${(error as Error).message}`, { cause: error })
  }
}

/** Returns where the old text is. */
async function keepAndReplace(file: string, text: string): Promise<string> {
  let kept: string | undefined
  try {
    kept = await copyOf(file)
    await replaceKept(file, text)
    return kept
  } catch (error) {
    if (kept !== undefined) await rm(kept, { force: true })
    throw new AdminProblem(printableText(`nothing was changed: ${file}: ${writingProblem(error)}`), { cause: error })
  }
}

const MAX_COPIES = 20

/** An earlier copy is never overwritten: it may be the only text of somebody's bundle. */
async function copyOf(file: string): Promise<string> {
  for (let i = 1; i <= MAX_COPIES; i++) {
    const name = `${file}.before-rollback${i === 1 ? '' : `.${i}`}`
    try {
      await copyFile(file, name, constants.COPYFILE_EXCL)
      return name
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
  throw new Error(`there are ${MAX_COPIES} copies ${file}.before-rollback already: remove those that you do not need`)
}

/** The instance looks four times a second. Even a file on a network disk is seen within so many looks, unless it is another file. */
const ENOUGH_LOOKS = 40
/** Ends the wait for an instance that responds but does not look at its file any more. */
const PATIENCE_MS = 10 * 60_000
const ASK_MS = 200

async function untilActive(client: AdminClient, file: string, hash: string, { version }: Way): Promise<void> {
  const endMs = performance.now() + PATIENCE_MS
  let firstLooks: number | undefined
  while (performance.now() < endMs) {
    const { bundle: active, source } = await askAfterwards(client, file, version)
    if (active?.version === version && active.hash === hash) return
    const refused = source?.refused
    if (refused?.version === version) throw new AdminProblem(`the instance refused version ${version}: ${refused.problems.join('; ')}`)
    if (active !== null && BigInt(active.version) >= BigInt(version))
      throw new AdminProblem(`version ${active.version} is active: somebody else has published it meanwhile`)
    const looks = source?.looks ?? undefined
    firstLooks ??= looks
    if (looks !== undefined && looks - firstLooks! >= ENOUGH_LOOKS)
      throw new AdminProblem(
        `this had no effect: the instance has looked at its ${source!.path} ${looks - firstLooks!} times since, and it is not the file that was written here, ${file}. Run edge rollback on the machine of the instance`,
      )
    await sleep(ASK_MS)
  }
  throw new AdminProblem(
    `${file} has version ${version}, but the instance has not looked at it within ${PATIENCE_MS / 60_000} min; see edge bundle`,
  )
}

async function askAfterwards(client: AdminClient, file: string, version: string): Promise<BundleReportJson> {
  try {
    return await askBundle(client)
  } catch (error) {
    throw new AdminProblem(`${file} has version ${version}, but whether it is active is not known: ${(error as Error).message}`, {
      cause: error,
    })
  }
}

/** Replaces the file whole, where a symbolic link leads to, with its mode and its owner: the service must be able to read it. */
async function replaceKept(file: string, text: string): Promise<void> {
  const path = await realpath(file)
  const { mode, uid, gid } = await stat(path)
  await replaceFile(path, async (handle) => {
    await handle.writeFile(text)
    const own = await handle.stat()
    if (own.uid !== uid || own.gid !== gid) await handle.chown(uid, gid).catch(refuseOwner)
    await handle.chmod(mode & 0o7777)
  })
}

function refuseOwner(error: unknown): never {
  throw new Error('this user cannot keep its owner and its group: run it as the owner', { cause: error })
}
