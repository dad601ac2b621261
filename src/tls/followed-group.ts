import { WatchedFile } from '../files/watched-file.ts'
import { readFileBounded, withDiskTimeout } from '../files/whole-file.ts'

/** Longer than any chain of certificates, and than the authorities that browsers trust. */
const MAX_FILE_BYTES = 1024 ** 2
/** Files that belong together are replaced one after the other, so what is wrong for less than this time is no problem. */
const REPLACING_MS = 2000

/** Files that are of use only together. */
export interface FileGroup<Value> {
  readonly paths: readonly string[]
  /** Makes something of their content, or says what is wrong. */
  read(contents: readonly Buffer[]): { readonly value: Value } | { readonly problem: string }
  /** Says why one of them cannot be read. */
  unreadable(path: string, error: Error): string
}

export interface GroupOptions {
  /** Waits until files that are replaced one after the other are complete. */
  readonly pause: (ms: number) => Promise<unknown>
  readonly diskTimeoutMs: number | undefined
}

export interface GroupListener {
  /** Called when there is a new value. */
  onValue(): void
  /** Called when there is a problem that was not there before, or none any more. The last good value stays. */
  onProblem(): void
}

/** Follows files that are of use only together. Keeps the last good value. */
export class FollowedGroup<Value> {
  readonly #group: FileGroup<Value>
  readonly #pause: GroupOptions['pause']
  readonly #files: readonly WatchedFile[]
  /** The last reading of each file. */
  readonly #readings: (Buffer | Error)[]
  #listener: GroupListener | undefined
  #value: Value
  /** What the value was made of. */
  #contents: readonly Buffer[]
  #problem: string | undefined
  #isPausing = false
  #isStopped = false

  private constructor(group: FileGroup<Value>, pause: GroupOptions['pause'], contents: readonly Buffer[], value: Value) {
    this.#group = group
    this.#pause = pause
    this.#contents = contents
    this.#readings = [...contents]
    this.#value = value
    this.#files = group.paths.map((path, index) => {
      return new WatchedFile(path, MAX_FILE_BYTES, {
        onContent: (bytes) => this.#note(index, bytes),
        onProblem: (error) => this.#note(index, error),
      })
    })
  }

  /** Reads the files. Throws an error that says what is wrong. */
  static async read<Value>(group: FileGroup<Value>, { pause, diskTimeoutMs }: GroupOptions): Promise<FollowedGroup<Value>> {
    const contents = await Promise.all(
      group.paths.map((path) =>
        withDiskTimeout(readFileBounded(path, MAX_FILE_BYTES), diskTimeoutMs).catch((error: Error) => {
          throw new Error(group.unreadable(path, error), { cause: error })
        }),
      ),
    )
    const reading = group.read(contents)
    if ('problem' in reading) throw new Error(reading.problem)
    return new FollowedGroup(group, pause, contents, reading.value)
  }

  /** The last good value. */
  get value(): Value {
    return this.#value
  }

  /** Why the files as they are cannot be used; undefined if they can. */
  get problem(): string | undefined {
    return this.#problem
  }

  follow(listener: GroupListener): void {
    this.#listener = listener
    for (const file of this.#files) void file.start()
  }

  async readAgain(): Promise<void> {
    await Promise.all(this.#files.map((file) => file.reload()))
  }

  stop(): void {
    this.#isStopped = true
    for (const file of this.#files) file.stop()
  }

  #note(index: number, reading: Buffer | Error): void {
    this.#readings[index] = reading
    const together = this.#readTogether()
    if ('value' in together) return this.#noteGood(together.value)
    if (this.#isPausing) return
    this.#isPausing = true
    void this.#pause(REPLACING_MS).then(() => this.#reportProblem())
  }

  #noteGood(value: Value): void {
    const hadProblem = this.#problem !== undefined
    this.#problem = undefined
    const contents = this.#readings as readonly Buffer[]
    if (!isSame(contents, this.#contents)) {
      this.#value = value
      this.#contents = [...contents]
      this.#listener!.onValue()
    } else if (hadProblem) this.#listener!.onProblem()
  }

  #reportProblem(): void {
    this.#isPausing = false
    const together = this.#readTogether()
    if (this.#isStopped || 'value' in together || together.problem === this.#problem) return
    this.#problem = together.problem
    this.#listener!.onProblem()
  }

  #readTogether(): { readonly value: Value } | { readonly problem: string } {
    const bad = this.#readings.findIndex((reading) => reading instanceof Error)
    if (bad >= 0) return { problem: this.#group.unreadable(this.#group.paths[bad]!, this.#readings[bad] as Error) }
    return this.#group.read(this.#readings as readonly Buffer[])
  }
}

function isSame(some: readonly Buffer[], others: readonly Buffer[]): boolean {
  return some.every((bytes, index) => bytes.equals(others[index]!))
}
