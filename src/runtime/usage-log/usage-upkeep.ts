import { createReadStream } from 'node:fs'
import { access, lstat, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { Logger } from 'pino'
import { replaceFile } from '../../files/whole-file.ts'
import type { Clock } from '../../time/clock.ts'
import { HOUR_MS, hourStartMs, parseUsageFileName, type UsageFileName, usageFileName } from '../../usage-log/usage-file-name.ts'

const INTERVAL_MS = 60_000
const DAY_MS = 24 * HOUR_MS
/** A file of another process that has not changed for so long is finished: a process that runs compresses its own within minutes. */
const ABANDONED_MS = 2 * HOUR_MS
/** Workers may still have lines of an hour that has just ended. */
const GRACE_MS = 30_000
/** What a killed process may leave behind while it compresses a file. */
const UNFINISHED = /^usage-.+\.jsonl\.gz\.[0-9a-f]{12}\.new$/

export interface UsageUpkeepParts {
  readonly directory: string
  readonly keepDays: number
  /** Identifies this process in the names of its files. */
  readonly instance: string
  readonly intervalMs: number | undefined
  readonly logger: Logger
  readonly clock: Clock
  /** Closes a file of this process. Resolves when nothing more is written to it. */
  readonly release: (name: string) => Promise<void>
}

/**
 * Removes files that are too old, and compresses those of hours that are over, one at a time. A file that cannot be tended keeps none of the others from it, and
 * is tried again a minute later: a full disk, on which nothing can be compressed, gets room by what is removed.
 */
export class UsageUpkeep {
  readonly #parts: UsageUpkeepParts
  /** The number of the next file of an hour, if it is not 1. */
  readonly #numbers = new Map<string, number>()
  readonly #timer: NodeJS.Timeout
  readonly #steadiness: Steadiness
  #running: Promise<void> | undefined
  #isStopped = false
  #problem: string | undefined

  constructor(parts: UsageUpkeepParts) {
    this.#parts = parts
    this.#steadiness = new Steadiness(parts.clock)
    this.#timer = setInterval(() => this.#runOnce(), parts.intervalMs ?? INTERVAL_MS).unref()
    this.#runOnce()
  }

  /** Returns the name of the file that lines of this hour go to. Its number rises once there is a compressed one, even if somebody else has compressed it. */
  async nameOf(hour: string): Promise<string> {
    const { directory, instance } = this.#parts
    for (let number = this.#numbers.get(hour) ?? 1; ; number++) {
      const file = { hour, instance, number }
      const isTaken = await exists(join(directory, usageFileName({ ...file, isCompressed: true })))
      if (!isTaken) return usageFileName({ ...file, isCompressed: false })
      this.#numbers.set(hour, number + 1)
    }
  }

  /** Resolves when no file is being compressed. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#timer)
    await this.#running
  }

  #runOnce(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
    })
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    try {
      const time = this.#steadiness.look()
      const names = await this.#names()
      const known = new Set(names)
      const failures: string[] = []
      // Those that are too old come first, because compressing needs room.
      for (const name of names.toSorted(byAge)) {
        if (this.#isStopped) return
        await this.#tendIfThere(name, known, time).catch((error: Error) => failures.push(error.message))
      }
      if (failures.length === 0) this.#noteDone()
      else this.#report(failures[0]!)
    } catch (error) {
      this.#report((error as Error).message)
    }
  }

  /** Where there is no directory yet, or no longer, whoever writes makes one. */
  async #names(): Promise<string[]> {
    return readdir(this.#parts.directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    })
  }

  /** Another process may have compressed or removed the file meanwhile. */
  async #tendIfThere(name: string, names: ReadonlySet<string>, time: ReadTime): Promise<void> {
    const file = parseUsageFileName(name)
    try {
      if (file !== undefined) await this.#tend(name, file, names, time)
      else if (UNFINISHED.test(name) && (await this.#isAbandoned(name, time))) await this.#remove(name)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }

  async #tend(name: string, file: UsageFileName, names: ReadonlySet<string>, time: ReadTime): Promise<void> {
    const { keepDays, instance } = this.#parts
    const endedMs = time.wallMs - hourStartMs(file.hour) - HOUR_MS
    if (endedMs > keepDays * DAY_MS) {
      if (time.isSteady) await this.#remove(name)
    } else if (!file.isCompressed) {
      const compressed = usageFileName({ ...file, isCompressed: true })
      // The process was killed between the two steps of `#compress`: the compressed file is complete.
      if (names.has(compressed)) await this.#remove(name)
      else if (file.instance === instance ? endedMs > GRACE_MS : await this.#isLeft(name, time))
        await this.#compress(name, compressed, file)
    }
  }

  /** Whether a file of another process is finished. After a step of the clock, every file looks older than it is. */
  async #isLeft(name: string, time: ReadTime): Promise<boolean> {
    return !time.hasStepped && (await this.#isAbandoned(name, time))
  }

  async #compress(name: string, compressed: string, { hour, instance, number }: UsageFileName): Promise<void> {
    const { directory, release } = this.#parts
    if (instance === this.#parts.instance) {
      this.#numbers.set(hour, number + 1)
      await release(name)
    }
    const source = join(directory, name)
    await replaceFile(join(directory, compressed), (handle) =>
      pipeline(createReadStream(source), createGzip(), async (pieces: AsyncIterable<Buffer>) => {
        for await (const piece of pieces) await handle.writeFile(piece)
      }),
    )
    await this.#remove(name)
  }

  async #isAbandoned(name: string, { wallMs }: ReadTime): Promise<boolean> {
    const found = await lstat(join(this.#parts.directory, name))
    // Reading a pipe would never end, and a link leads to a file of somebody else.
    return found.isFile() && wallMs - found.mtimeMs > ABANDONED_MS
  }

  #remove(name: string): Promise<void> {
    return rm(join(this.#parts.directory, name), { force: true })
  }

  #noteDone(): void {
    if (this.#problem === undefined) return
    this.#problem = undefined
    const { logger, directory } = this.#parts
    logger.info({ event: 'usage_upkeep_resumed', path: directory }, 'files in EDGE_USAGE_DIR are compressed and removed again')
  }

  /** Logs a failure once for each change of the reason. */
  #report(reason: string): void {
    if (reason === this.#problem) return
    this.#problem = reason
    const { logger, directory } = this.#parts
    logger.warn({ event: 'usage_upkeep_failed', path: directory, reason }, 'old files in EDGE_USAGE_DIR could not be compressed or removed')
  }
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

/** Names begin with their hour, so this is also the order of time. What was left unfinished may go first: it has the room that others need. */
function byAge(a: string, b: string): number {
  return Number(UNFINISHED.test(b)) - Number(UNFINISHED.test(a)) || (a < b ? -1 : 1)
}

/** The largest difference between two clocks that is no step. */
const MAX_STEP_MS = 10 * 60_000
/** How long the clock must go evenly, from the start or the last step on, before its time is relied upon. */
const STEADY_MS = HOUR_MS

/** The wall clock at one moment, with how far it can be believed. */
interface ReadTime {
  readonly wallMs: number
  /** Whether it has gone evenly for long enough. */
  readonly isSteady: boolean
  /** Whether it has been set since it last went evenly for long enough. */
  readonly hasStepped: boolean
}

/** Whether the wall clock goes as the monotonic one does. One that is wrong for a while, after a boot or a mistake, must not make all files look old. */
class Steadiness {
  readonly #clock: Clock
  #hasStepped = false
  #offsetMs: number
  #sinceMs: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#sinceMs = clock.nowMs()
    this.#offsetMs = clock.wallMs() - this.#sinceMs
  }

  look(): ReadTime {
    const [nowMs, wallMs] = [this.#clock.nowMs(), this.#clock.wallMs()]
    const offsetMs = wallMs - nowMs
    if (Math.abs(offsetMs - this.#offsetMs) > MAX_STEP_MS) {
      this.#offsetMs = offsetMs
      this.#sinceMs = nowMs
      this.#hasStepped = true
    }
    const isSteady = nowMs - this.#sinceMs >= STEADY_MS
    if (isSteady) this.#hasStepped = false
    return { wallMs, isSteady, hasStepped: this.#hasStepped }
  }
}
