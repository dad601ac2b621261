import { existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A wall clock of a process that runs, ahead of the machine's or behind it, and moved while it runs. Its monotonic clock stays true. */
export class SteppingClock {
  readonly #path: string
  #aheadMs = 0

  constructor(directory: string) {
    this.#path = join(directory, 'clock')
    this.#write()
  }

  /** What the process must be started with. */
  get env(): Readonly<Record<string, string>> {
    return {
      // libfaketime asks for memory where jemalloc asks for the time, in a circle; libc's own malloc does not ask.
      LD_PRELOAD: `${faketimeLibrary()} libc.so.6`,
      FAKETIME_TIMESTAMP_FILE: this.#path,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    }
  }

  /** Forward, or back where it is below 0; from the next look at the clock on. */
  step(ms: number): void {
    this.#aheadMs += ms
    this.#write()
  }

  /** libfaketime removes its shared memory at a normal end alone, and a process that was killed has none. */
  clearUpAfter(pid: number): void {
    for (const name of [`faketime_shm_${pid}`, `sem.faketime_sem_${pid}`]) rmSync(join('/dev/shm', name), { force: true })
  }

  #write(): void {
    const sign = this.#aheadMs < 0 ? '-' : '+'
    // In one step: the process reads it at any moment.
    writeFileSync(`${this.#path}.new`, `${sign}${(Math.abs(this.#aheadMs) / 1000).toFixed(3)}\n`)
    renameSync(`${this.#path}.new`, this.#path)
  }
}

/** Where Debian puts it; nothing where it is not installed. */
export function faketimeLibrary(): string | undefined {
  const folders = existsSync('/usr/lib') ? readdirSync('/usr/lib') : []
  return folders.map((folder) => `/usr/lib/${folder}/faketime/libfaketime.so.1`).find((path) => existsSync(path))
}
