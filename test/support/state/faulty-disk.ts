import { execFileSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'vitest'
import type { Owner } from '../service/running.ts'

/** A small file system of its own in this directory, for as long as the test runs. Skips the test where that takes other rights. */
export function smallDisk(directory: string, test: Owner & Pick<TestContext, 'skip'>, kilobytes = 64): SmallDisk {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${kilobytes}k`, 'tmpfs', directory], { stdio: 'pipe' })
  } catch (error) {
    test.skip(`no file system could be mounted: ${(error as Error).message}`)
  }
  test.onTestFinished(() => void execFileSync('umount', ['--lazy', directory]))
  return new SmallDisk(directory)
}

export class SmallDisk {
  readonly #directory: string

  constructor(directory: string) {
    this.#directory = directory
  }

  /** Until not one more block is free. */
  fill(): void {
    try {
      for (let i = 0; ; i++) writeFileSync(join(this.#directory, `filler-${i}`), Buffer.alloc(4096))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    }
  }

  makeReadOnly(): void {
    execFileSync('mount', ['-o', 'remount,ro', this.#directory])
  }
}

/** A file system of its own that can be made to hang. Skips the test where that takes other rights. */
export function freezingDisk(directory: string, test: Owner & Pick<TestContext, 'skip'>): FreezingDisk {
  const image = `${directory}.img`
  writeFileSync(image, Buffer.alloc(8 * 1024 * 1024))
  test.onTestFinished(() => rmSync(image))
  try {
    execFileSync('mkfs.ext4', ['-q', '-F', image], { stdio: 'pipe' })
    execFileSync('mount', ['-o', 'loop', image, directory], { stdio: 'pipe' })
  } catch (error) {
    test.skip(`no file system could be mounted: ${(error as Error).message}`)
  }
  test.onTestFinished(() => void execFileSync('umount', ['--lazy', directory]))
  return new FreezingDisk(directory)
}

export class FreezingDisk {
  readonly #directory: string
  #isFrozen = false

  constructor(directory: string) {
    this.#directory = directory
  }

  /** Until it thaws, writes to it block. */
  freeze(): void {
    execFileSync('fsfreeze', ['--freeze', this.#directory])
    this.#isFrozen = true
  }

  thaw(): void {
    if (this.#isFrozen) execFileSync('fsfreeze', ['--unfreeze', this.#directory])
    this.#isFrozen = false
  }
}

/** From now on the process may not write to any file. */
export function forbidWriting(pid: number, test: Pick<TestContext, 'skip'>): void {
  try {
    execFileSync('prlimit', ['--pid', String(pid), '--fsize=0:'], { stdio: 'pipe' })
  } catch (error) {
    test.skip(`limits of processes cannot be set: ${(error as Error).message}`)
  }
}
