import { access, constants, stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { replaceFile } from '../../files/whole-file.ts'
import type { ReplayedBundle } from '../../offline/replay/bundle-replay.ts'
import { LogFile, LogProblem } from '../../offline/replay/logs/log-file.ts'
import { UnreadableLines } from '../../offline/replay/logs/logged-request.ts'
import { LogSource, mergeLogs } from '../../offline/replay/merge-logs.ts'
import { Replay } from '../../offline/replay/replay.ts'
import { replayReport } from '../../offline/replay/replay-report.ts'
import { planOf, readSimulatedSettings } from '../../offline/simulation/simulated-settings.ts'
import { printableJson, printableText } from '../../text/printable.ts'
import { ignoreClosed, printStartProblems, readingProblem, writingProblem } from '../file-problem.ts'
import { readBundleFile } from '../read-bundle.ts'
import { countText } from '../text/text-table.ts'
import { printArgumentProblem } from '../usage-problem.ts'
import { htmlReport } from './html/html-report.ts'
import { ProgressBar } from './progress-bar.ts'
import { REPLAY_HELP, type ReplayArguments, ReplayProblem, readReplayArguments } from './replay-arguments.ts'
import { replayNotes, summaryText, unreadableNotes } from './summary-text.ts'

/** Bounds on the requests kept in memory to put them in order: for all logs together, for each log, and in characters for all. */
const WINDOW_REQUESTS = 200_000
const MAX_WINDOW_REQUESTS = 10_000
const WINDOW_CHARACTERS = 64 * 1024 ** 2

/** Exit status that a shell reports for a program that Ctrl-C ends. */
const INTERRUPTED = 130

/** Decides the requests of logs by one or two bundles and reports the outcome. Returns the exit status. */
export async function replay(args: string[]): Promise<number> {
  process.stdout.off('error', ignoreClosed).on('error', ignoreClosed)
  try {
    const given = readReplayArguments(args)
    if (!given.isHelp) return await replayLogs(given)
    process.stdout.write(REPLAY_HELP)
    return 0
  } catch (error) {
    if (!(error instanceof ReplayProblem)) return printArgumentProblem(error, 'replay', REPLAY_HELP)
    for (const line of [`edge replay: ${error.message}`, ...error.details.map((detail) => `  ${detail}`)])
      process.stderr.write(`${printableText(line)}\n`)
    return 1
  }
}

async function replayLogs(given: ReplayArguments): Promise<number> {
  const bundles = await readBundles(given.bundles)
  if (bundles === undefined) return 1
  const settings = await readSimulatedSettings(
    process.env,
    bundles.map(({ plan }) => plan),
  )
  if (!('identification' in settings)) return printStartProblems('edge replay', settings)
  await checkOutput(given)
  const totalBytes = await sizeOf(given.logs)
  // Hints about bodies are used, because a log says what the server knew about them.
  const replay = new Replay(bundles, { mode: given.mode, settings: { ...settings, hasHints: true } })
  const unreadable = new UnreadableLines()
  await readAll(given.logs, totalBytes, replay, unreadable)
  if (replay.requests === 0) {
    const problem = unreadable.count === 0 ? 'there is no request in these logs' : 'no line of these logs could be read'
    throw new ReplayProblem(problem, unreadableNotes(unreadable))
  }
  return print(given, replay, unreadable)
}

/** Prints all problems. Returns undefined if a bundle cannot be loaded. */
async function readBundles(files: readonly string[]): Promise<ReplayedBundle[] | undefined> {
  const bundles: ReplayedBundle[] = []
  for (const file of files) {
    const read = await readBundleFile(file)
    if (read !== undefined) bundles.push({ file, plan: planOf(read.bundle) })
  }
  return bundles.length === files.length ? bundles : undefined
}

/** Runs before the replay, which may take long. */
async function checkOutput({ htmlFile, bundles, logs }: ReplayArguments): Promise<void> {
  if (htmlFile === undefined) return
  const path = resolve(htmlFile)
  if ([...bundles, ...logs].some((file) => resolve(file) === path))
    throw new ReplayProblem(`--html: ${htmlFile} is one of the files to read`)
  try {
    await access(dirname(path), constants.W_OK)
    // A device or a pipe would be replaced by a regular file.
    if (await isOtherThanFile(path)) throw new Error('it is not a regular file')
  } catch (error) {
    throw new ReplayProblem(`--html: ${htmlFile}: ${writingProblem(error)}`)
  }
}

async function isOtherThanFile(path: string): Promise<boolean> {
  try {
    return !(await stat(path)).isFile()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

/** Returns undefined if a log is not a regular file, so that the total is unknown. */
async function sizeOf(logs: readonly string[]): Promise<number | undefined> {
  let total: number | undefined = 0
  for (const log of logs) {
    if (log === '-') total = undefined
    else {
      const size = await fileSize(log)
      total = total === undefined || size === undefined ? undefined : total + size
    }
  }
  return total
}

async function fileSize(log: string): Promise<number | undefined> {
  try {
    const found = await stat(log)
    if (found.isDirectory()) throw new ReplayProblem(`${log}: it is a directory`)
    await access(log, constants.R_OK)
    return found.isFile() ? found.size : undefined
  } catch (error) {
    throw error instanceof ReplayProblem ? error : new ReplayProblem(`${log}: ${readingProblem(error)}`)
  }
}

async function readAll(
  logs: readonly string[],
  totalBytes: number | undefined,
  replay: Replay,
  unreadable: UnreadableLines,
): Promise<void> {
  const files = logs.map((log) => new LogFile(log, 'edge replay …'))
  const bounds = {
    requests: Math.min(MAX_WINDOW_REQUESTS, Math.ceil(WINDOW_REQUESTS / logs.length)),
    characters: WINDOW_CHARACTERS / logs.length,
  }
  const sources = files.map((file, i) => new LogSource(file, i, bounds, unreadable))
  const bytesRead = (): number => files.reduce((sum, file) => sum + file.bytesRead, 0)
  const bar = new ProgressBar(process.stderr, totalBytes, () => ({ bytesRead: bytesRead(), requests: replay.requests }))
  const interrupt = (): void => {
    bar.stop()
    process.stderr.write(`edge replay: interrupted after ${countText(replay.requests, 'request')}\n`)
    process.exit(INTERRUPTED)
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, interrupt)
  bar.start()
  try {
    await mergeLogs(sources, (request) => replay.add(request))
  } catch (error) {
    const file = files.find((one) => one.failure === error)
    if (file === undefined) throw error
    throw new ReplayProblem(`${file.name}: ${error instanceof LogProblem ? error.message : readingProblem(error)}`)
  } finally {
    bar.stop()
    for (const file of files) file.close()
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, interrupt)
  }
}

async function print({ htmlFile, isJson }: ReplayArguments, replay: Replay, unreadable: UnreadableLines): Promise<number> {
  const report = replayReport(replay, unreadable.count)
  const notes = replayNotes(report, replay.bundles, unreadable)
  if (htmlFile !== undefined) {
    try {
      await replaceFile(htmlFile, (handle) => handle.writeFile(htmlReport(report, replay.series, notes)))
    } catch (error) {
      throw new ReplayProblem(`--html: ${htmlFile}: ${writingProblem(error)}`)
    }
  }
  if (isJson) {
    for (const note of notes) process.stderr.write(`edge replay: ${printableText(note)}\n`)
    process.stdout.write(`${printableJson(JSON.stringify(report, undefined, 2))}\n`)
  } else process.stdout.write(summaryText(report, notes))
  return 0
}
