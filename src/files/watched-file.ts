import { readFile, stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { ChangeWatch } from './change-watch.ts'

export interface FileListener {
  /** Called with new content. The next look waits until it is done. If it throws, the content is offered again. */
  onContent(bytes: Buffer): void | Promise<void>
  /** Called when the file cannot be read or used, once for each change of the reason. */
  onProblem(error: Error): void
}

// The file is polled, because that works the same everywhere: on network disks, for files that do not exist yet, and while a file changes. A look is one
// stat. Where the kernel tells of changes, a file that is at rest is left alone until then.
const POLL_MS = 250
/** How often a file is looked at although the kernel tells of changes: a directory far up may have been moved. */
const WATCHED_POLL_MS = 5000
/**
 * Each change in its directory wakes this thread, so one that others write to all the time is not watched: after a change that was not the file's, the
 * watch pauses, twice as long each time, unless it was quiet for a while before.
 */
const MAX_PAUSE_MS = 60_000
const CALM_MS = 10_000
/** New content is accepted when two looks this far apart agree, because half-written YAML can be valid. */
const SETTLE_MS = 100
/**
 * A file that was not written to for this long is complete, and one look is enough. Tools that restore an old time (cp -p, tar, rsync)
 * do so when the content is complete. This is much longer than SETTLE_MS, because the clock of a network disk may be behind.
 */
const REST_MS = 10_000

interface Content {
  readonly bytes: Buffer
  /** Changes with every write and every replacement; a link's target counts, not the link. */
  readonly fingerprint: string
  readonly isAtRest: boolean
}

/** Follows one path through edits, renames, symlink swaps, disappearance and return. */
export class WatchedFile {
  readonly #path: string
  readonly #listener: FileListener
  readonly #maxBytes: number
  readonly #settle: () => Promise<void>
  readonly #wallMs: () => number
  readonly #changes: ChangeWatch
  /** Whether the kernel tells of changes. */
  #watch: 'untried' | 'on' | 'off' = 'untried'
  /** Whether something may have changed since the last look began. */
  #isChanged = false
  /** When the watch was last started or paused. */
  #watchSetMs = 0
  #pauseMs = POLL_MS
  #seen = ''
  #problem = ''
  #looking: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #isStopped = false
  #looks = 0
  #lookedAtMs = 0

  /** `settle` is the pause between two looks that must agree; the age of a file is measured by `wallMs`. */
  constructor(path: string, maxBytes: number, listener: FileListener, settle = () => sleep(SETTLE_MS), wallMs = () => Date.now()) {
    this.#path = path
    this.#maxBytes = maxBytes
    this.#listener = listener
    this.#settle = settle
    this.#wallMs = wallMs
    this.#changes = new ChangeWatch(path, () => this.#onChange())
  }

  /** How many looks have ended, each with all that followed from it. */
  get looks(): number {
    return this.#looks
  }

  /** Looks once, then keeps looking. */
  async start(): Promise<void> {
    await this.#look()
    this.#scheduleLook()
  }

  /** Reads the file again even if it seems unchanged. */
  async reload(): Promise<void> {
    await this.#looking
    this.#seen = ''
    this.#problem = ''
    await this.#look()
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#changes.close()
  }

  #scheduleLook(waitMs = this.#watch === 'on' && !this.#isChanged ? WATCHED_POLL_MS : POLL_MS): void {
    if (!this.#isStopped) this.#timer = setTimeout(() => void this.#lookAgain(), waitMs).unref()
  }

  async #lookAgain(): Promise<void> {
    this.#timer = undefined
    this.#isChanged = false
    this.#lookedAtMs = performance.now()
    const before = this.#seen
    await this.#look()
    if (this.#seen === '' || this.#seen !== before) {
      this.#watch = 'untried'
      this.#pauseMs = POLL_MS
      this.#watchSetMs = 0
    } else if (this.#watch === 'untried' && performance.now() >= this.#watchSetMs + this.#pauseMs) {
      this.#watch = (await this.#changes.start()) ? 'on' : 'off'
      this.#watchSetMs = performance.now()
      // The next look sees what happened before the watch began.
      this.#isChanged = true
    }
    this.#scheduleLook()
  }

  /** Looks at once, but no more often than without a watch. */
  #onChange(): void {
    if (this.#watch !== 'on') return
    this.#watch = 'untried'
    this.#changes.stop()
    this.#isChanged = true
    const nowMs = performance.now()
    this.#pauseMs = nowMs - this.#watchSetMs > CALM_MS ? POLL_MS : Math.min(MAX_PAUSE_MS, 2 * this.#pauseMs)
    this.#watchSetMs = nowMs
    if (this.#timer === undefined) return
    clearTimeout(this.#timer)
    this.#scheduleLook(Math.max(0, POLL_MS - (nowMs - this.#lookedAtMs)))
  }

  /** Runs one look at a time; calls that come meanwhile share it. */
  #look(): Promise<void> {
    this.#looking ??= this.#lookNow().finally(() => {
      this.#looking = undefined
      this.#looks++
    })
    return this.#looking
  }

  async #lookNow(): Promise<void> {
    try {
      if (this.#isStopped || (await this.#stat()).fingerprint === this.#seen) return
      const content = await this.#settledContent()
      if (content === undefined || this.#isStopped) return
      this.#seen = content.fingerprint
      await this.#listener.onContent(content.bytes)
      this.#problem = ''
    } catch (error) {
      this.#seen = ''
      this.#report(error as NodeJS.ErrnoException)
    }
  }

  /** Waits until the content settles, which may never happen. Returns undefined if the watch is stopped meanwhile. */
  async #settledContent(): Promise<Content | undefined> {
    let content = await this.#read()
    if (content.isAtRest) return content
    for (;;) {
      await this.#settle()
      if (this.#isStopped) return undefined
      const again = await this.#read()
      if (again.fingerprint === content.fingerprint && again.bytes.equals(content.bytes)) return content
      content = again
    }
  }

  async #read(): Promise<Content> {
    const before = await this.#stat()
    const bytes = await readFile(this.#path)
    const after = await this.#stat()
    return { bytes, fingerprint: after.fingerprint, isAtRest: before.isAtRest && before.fingerprint === after.fingerprint }
  }

  async #stat(): Promise<Omit<Content, 'bytes'>> {
    const found = await stat(this.#path, { bigint: true })
    const { dev, ino, size, mtimeNs, ctimeNs, mtimeMs } = found
    if (found.isDirectory()) throw new Error('it is a directory')
    if (!found.isFile()) throw new Error('it is not a regular file') // a pipe would be waited on for ever
    if (size > this.#maxBytes) throw new Error(`it has ${size} bytes, more than ${this.#maxBytes}`)
    return { fingerprint: `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`, isAtRest: this.#wallMs() - Number(mtimeMs) >= REST_MS }
  }

  #report(error: NodeJS.ErrnoException): void {
    const problem = error.code ?? error.message
    if (problem === this.#problem || this.#isStopped) return
    this.#problem = problem
    this.#listener.onProblem(error)
  }
}
