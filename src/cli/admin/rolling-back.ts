import { createHash } from 'node:crypto'
import { copyFile, realpath, stat } from 'node:fs/promises'
import { isAbsolute, normalize, resolve, sep } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BundleComparisonJson, BundleListJson, BundleReportJson, BundleTextJson } from '../../admin/api/instance-types.ts'
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

/** The earlier policies under the next version. */
interface RolledBack {
  readonly text: string
  readonly format: BundleTextJson['format']
  readonly version: string
  /** The version whose policies they are. */
  readonly of: string
}

/** Prints the policies of an earlier bundle under the next version, or publishes them. */
export async function rollBack(client: AdminClient, to: string | undefined, file: string | undefined): Promise<void> {
  const report = await askBundle(client)
  const rolledBack = await askRolledBack(client, report, to)
  const obstacle = await obstacleTo(file, report, rolledBack)
  if (file !== undefined && obstacle === undefined) return publish(client, file, rolledBack, report.bundle!.hash)
  process.stdout.write(terminalText(rolledBack.text))
  const { version, of } = rolledBack
  const remains = remainingSteps(report)
  const sentence = `this is version ${version} with the policies of ${of}; it is not ${obstacle}${remains}`
  if (file !== undefined) throw new AdminProblem(printableText(sentence))
  process.stderr.write(printableText(`edge rollback: ${sentence}`).concat('\n'))
}

async function askRolledBack(client: AdminClient, report: BundleReportJson, to: string | undefined): Promise<RolledBack> {
  const { bundle: active, source } = report
  if (active === null) throw new AdminProblem('no bundle is active, so there is none to go back from')
  const version = nextVersion(active.version, source?.refused?.version ?? '0')
  const bundles = await askBundles(client)
  if (to === undefined) await refuseSecond(client, bundles, active.version)
  const of = earlierOf(bundles, active.version, to === undefined ? undefined : BigInt(to).toString(), version)
  // As it came: what is published must have the credentials that its rules match.
  const response = await client.ask({ method: 'GET', path: `bundles/${of}`, query: { credentials: 'clear' } })
  const { text, format } = response.json as BundleTextJson
  try {
    return { text: await rolledBackText(text, format, version, readInThread), format, version, of }
  } catch (error) {
    throw new AdminProblem(`bundle ${of}: ${(error as Error).message}`, { cause: error })
  }
}

/** A rollback that is done again, by somebody else or after a timeout, would bring back what the first one undid. */
async function refuseSecond(client: AdminClient, bundles: BundleListJson['bundles'], active: string): Promise<void> {
  const [undone, before] = bundles.filter(({ version }) => version !== active)
  if (undone === undefined || !before?.has_text) return
  const response = await client.ask({ method: 'GET', path: `bundles/${active}/changes`, query: { from: before.version } })
  const { policies, prices, reordered } = (response.json as BundleComparisonJson).changes
  if (reordered || [policies, prices].some(({ added, removed, changed }) => added + removed + changed > 0)) return
  throw new AdminProblem(
    `version ${active} already has the policies of ${before.version}: it is what undid ${undone.version}. To go back further, name a version with --to`,
  )
}

/** Above what is active, and above what the source has: other instances may have taken that. */
function nextVersion(active: string, offered: string): string {
  const [one, other] = [BigInt(active), BigInt(offered)]
  return ((one > other ? one : other) + 1n).toString()
}

function earlierOf(bundles: BundleListJson['bundles'], active: string, to: string | undefined, next: string): string {
  if (to === active) throw new AdminProblem(`version ${to} is active`)
  const earlier = bundles.filter(({ version }) => version !== active)
  const found = to === undefined ? earlier[0] : earlier.find(({ version }) => version === to)
  if (found?.has_text) return found.version
  if (found !== undefined) throw new AdminProblem(`the text of version ${found.version} is not kept any more: ${byHand(next)}`)
  if (earlier.length === 0) throw new AdminProblem(`no other bundle was active since the instance started: ${byHand(next)}`)
  const kept = earlier.map(({ version }) => version).join(', ')
  throw new AdminProblem(`version ${to} is not among those that the instance still has (${kept}): ${byHand(next)}`)
}

function byHand(next: string): string {
  return `take the old policies from where you keep your bundles, and publish them with bundle_version ${next}`
}

/** Why the text cannot be written to this file, as the end of "it is not …"; undefined where it can. */
async function obstacleTo(file: string | undefined, report: BundleReportJson, { format }: RolledBack): Promise<string | undefined> {
  const { source, bundle: active } = report
  if (source === null) return 'published: the instance reads no file'
  if (source.url !== null) return 'published: the instance reads a URL'
  if (source.signature_required) return 'published: the instance takes signed bundles only'
  if (file === undefined) return `published: edge rollback --publish ${source.path} does that`
  if (!(await isSameFile(file, source.path!))) return `published: the instance reads ${source.path}, not ${file}`
  if (formatOf(file) !== format) return `published: it is ${format === 'yaml' ? 'YAML' : 'JSON'}, which the name ${file} does not say`
  let bytes: Buffer
  try {
    bytes = await readFileBounded(file, MAX_BUNDLE_BYTES)
  } catch (error) {
    return `published: ${file}: ${readingProblem(error)}`
  }
  // A file of the same name on another machine has something else in it, and so has one that the instance could not take.
  if (hashOf(bytes) === active!.hash || (source.problem !== null && isAbsolute(source.path!))) return undefined
  if (source.problem !== null)
    return `published: ${file} does not have the active bundle, and the instance names its file by a relative path, so this may be another one`
  return `published: ${file} does not have the active bundle. Run this on the machine of the instance, or again in a second if it has just changed`
}

function hashOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** The service may have been started in another directory: then the end of the path must be the same. */
async function isSameFile(file: string, source: string): Promise<boolean> {
  const given = resolve(file)
  if (!isAbsolute(source)) return given.endsWith(`${sep}${normalize(source)}`)
  if (given === resolve(source)) return true
  const [one, other] = await Promise.all([given, source].map((path) => realpath(path).catch(() => undefined)))
  return one !== undefined && one === other
}

function remainingSteps({ source }: BundleReportJson): string {
  if (source === null) return ''
  const place = source.url ?? source.path
  if (source.signature_required)
    return `. To publish it, put it into a file, sign that with edge sign --key KEY FILE, and put both where ${place} comes from`
  return source.url === null ? '' : `. To publish it, put it where ${place} comes from`
}

/** How long the instance may take to notice the file, which it looks at four times a second. */
const PATIENCE_MS = 30_000
const LOOK_MS = 200

async function publish(client: AdminClient, file: string, { text, version, of }: RolledBack, activeHash: string): Promise<void> {
  try {
    if (hashOf(await readFileBounded(file, MAX_BUNDLE_BYTES)) !== activeHash) {
      await copyFile(file, `${file}.before-rollback`)
      process.stderr.write(printableText(`edge rollback: what ${file} had is in ${file}.before-rollback`).concat('\n'))
    }
    await replaceKept(file, text)
  } catch (error) {
    throw new AdminProblem(printableText(`nothing was changed: ${file}: ${writingProblem(error)}`))
  }
  const endMs = performance.now() + PATIENCE_MS
  while (performance.now() < endMs) {
    const { bundle: active, source } = await askBundle(client)
    if (active?.version === version && active.hash === hashOf(Buffer.from(text))) {
      process.stdout.write(`Version ${version} is active, with the policies of ${of}.\n`)
      return
    }
    const refused = source?.refused
    if (refused?.version === version)
      throw new AdminProblem(printableText(`the instance refused version ${version}: ${refused.problems.join('; ')}`))
    if (active !== null && BigInt(active.version) >= BigInt(version))
      throw new AdminProblem(`version ${active.version} is active: somebody else has published it meanwhile`)
    await sleep(LOOK_MS)
  }
  throw new AdminProblem(
    printableText(`${file} has version ${version}, but the instance has not taken it within ${PATIENCE_MS / 1000} s; see edge bundle`),
  )
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
