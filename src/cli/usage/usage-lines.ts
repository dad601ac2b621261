import { readdir, realpath, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { LogFile, LogProblem } from '../../offline/replay/logs/log-file.ts'
import { HOUR_MS, hourStartMs, parseUsageFileName, usageFileName } from '../../usage-log/usage-file-name.ts'
import { type ReadUsageLine, readUsageLine } from '../../usage-log/usage-reader.ts'
import { readingProblem } from '../file-problem.ts'
import { type UsageArguments, UsageReportProblem } from './usage-arguments.ts'

/** The service writes none that is longer. */
const MAX_LINE_CHARACTERS = 1024 * 1024

/** Reads the lines of a usage log, file by file and piece by piece. */
export class UsageLines {
  /** Lines of the time and others, and those that are no lines of a usage log, or not whole. */
  readable = 0
  unreadable = 0
  /** Files whose rest could not be read, with the reason. */
  readonly damaged: string[] = []
  files = 0
  readonly #range: Pick<UsageArguments, 'fromMs' | 'toMs'>

  constructor(range: Pick<UsageArguments, 'fromMs' | 'toMs'>) {
    this.#range = range
  }

  /** Calls `onLine` for each line within the range. Throws a UsageReportProblem if a source cannot be read at all. */
  async read(sources: readonly string[], onLine: (line: ReadUsageLine) => void): Promise<void> {
    const paths: string[] = []
    for (const source of sources) paths.push(...(await this.#filesOf(source)))
    await refuseRepeated(paths)
    for (const path of paths) await this.#readFile(path, onLine)
  }

  /** Files outside the range are left out by their names. */
  async #filesOf(source: string): Promise<readonly string[]> {
    if (source === '-') return ['-']
    try {
      if (!(await stat(source)).isDirectory()) return [source]
      const entries = await readdir(source, { withFileTypes: true })
      const names = new Set(entries.filter((entry) => entry.isFile() || entry.isSymbolicLink()).map(({ name }) => name))
      const read = [...names].filter((name) => this.#isRead(name, names)).sort()
      return read.map((name) => join(source, name))
    } catch (error) {
      throw new UsageReportProblem(`${source}: ${readingProblem(error)}`)
    }
  }

  /** A compressed file is complete, and the plain one of the same name is about to be removed. */
  #isRead(name: string, names: ReadonlySet<string>): boolean {
    const file = parseUsageFileName(name)
    if (file === undefined || (!file.isCompressed && names.has(`${name}.gz`))) return false
    const startMs = hourStartMs(file.hour)
    return startMs < this.#range.toMs && startMs + HOUR_MS > this.#range.fromMs
  }

  async #readFile(path: string, onLine: (line: ReadUsageLine) => void): Promise<void> {
    const file = new LogFile(path, 'edge usage …')
    let [rest, isSkipping] = ['', false]
    try {
      for (let piece = await file.next(); piece !== undefined; piece = await file.next()) {
        const lines = (rest + piece).split('\n')
        rest = lines.pop()!
        for (const [i, line] of lines.entries()) {
          if (i > 0 || !isSkipping) this.#readLine(line, onLine)
        }
        if (lines.length > 0) isSkipping = false
        if (rest.length <= MAX_LINE_CHARACTERS) continue
        if (!isSkipping) this.unreadable++
        isSkipping = true
        rest = ''
      }
    } catch (error) {
      return this.#noteFailure(path, error, onLine)
    } finally {
      file.close()
    }
    this.files++
    if (rest !== '' && !isSkipping) this.#readLine(rest, onLine)
    if (file.damage !== undefined) this.damaged.push(`${path}: ${file.damage}`)
  }

  /** A file that was compressed after the directory was read has another name now. One that was removed for its age is a note, not the end of the report. */
  async #noteFailure(path: string, error: unknown, onLine: (line: ReadUsageLine) => void): Promise<void> {
    const isGone = (error as NodeJS.ErrnoException).code === 'ENOENT'
    if (isGone && path.endsWith('.jsonl')) return this.#readFile(`${path}.gz`, onLine)
    if (isGone) return void this.damaged.push(`${path}: it was removed before it could be read`)
    throw new UsageReportProblem(`${path}: ${error instanceof LogProblem ? error.message : readingProblem(error)}`)
  }

  /** `text` is a latin1 string of UTF-8 bytes. */
  #readLine(text: string, onLine: (line: ReadUsageLine) => void): void {
    if (text === '') return
    const line = readUsageLine(Buffer.from(text, 'latin1').toString())
    if (line === undefined) {
      this.unreadable++
      return
    }
    this.readable++
    const timeMs = Date.parse(line.time)
    if (timeMs >= this.#range.fromMs && timeMs < this.#range.toMs) onLine(line)
  }
}

/** Requests of a file that is read twice would count twice: one that is reached by two paths, and a copy, which has the same name elsewhere. */
async function refuseRepeated(paths: readonly string[]): Promise<void> {
  const known = new Map<string, string>()
  for (const path of paths) {
    const file = parseUsageFileName(basename(path))
    const names = [await realpath(path).catch(() => path), ...(file === undefined ? [] : [usageFileName({ ...file, isCompressed: false })])]
    for (const name of names) {
      const first = known.get(name)
      if (first !== undefined)
        throw new UsageReportProblem(`${path} is ${first} again, or a copy of it: give one of them, or it counts twice`)
      known.set(name, path)
    }
  }
}
