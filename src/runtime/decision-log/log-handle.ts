import { constants } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'

/** The file of EDGE_DECISION_LOG cannot be written. */
export class DecisionLogFault extends Error {
  readonly path: string

  constructor(path: string, cause: unknown) {
    super(`${path} cannot be written`, { cause })
    this.path = path
  }
}

/** An open file to which lines are added. It is for its owner alone if it is new: it has the callers' values. */
export class LogHandle {
  readonly #file: FileHandle
  /** Tells it from another that has its name by now. */
  readonly #identity: string
  /** Whether its last line has no end: the next one must not continue it. */
  #isLineOpen: boolean

  private constructor(file: FileHandle, identity: string, isLineOpen: boolean) {
    this.#file = file
    this.#identity = identity
    this.#isLineOpen = isLineOpen
  }

  /** Throws a DecisionLogFault. */
  static async open(path: string): Promise<LogHandle> {
    try {
      // Opening a pipe would wait for somebody to read it.
      if ((await identityOf(path)) === NOT_A_FILE) throw new Error('it is not a regular file')
      const file = await open(path, constants.O_RDWR | constants.O_APPEND | constants.O_CREAT, 0o600)
      const { dev, ino, size } = await file.stat()
      const last = Buffer.from('\n')
      if (size > 0) await file.read(last, 0, 1, size - 1)
      return new LogHandle(file, `${dev}:${ino}`, last[0] !== 0x0a)
    } catch (error) {
      throw new DecisionLogFault(path, error)
    }
  }

  /** Whether the path still leads to this file: one that was rotated is let go of. */
  async isAt(path: string): Promise<boolean> {
    return (await identityOf(path)) === this.#identity
  }

  /** Throws a PartlyWritten where not all of it could be written. */
  async append(lines: Buffer): Promise<void> {
    const bytes = this.#isLineOpen ? Buffer.concat([LINE_END, lines]) : lines
    let written = 0
    try {
      while (written < bytes.length) written += (await this.#file.write(bytes, written)).bytesWritten
      this.#isLineOpen = false
    } catch (error) {
      if (written > 0) this.#isLineOpen = bytes[written - 1] !== 0x0a
      throw new PartlyWritten(linesIn(bytes.subarray(written)), error)
    }
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}

export class PartlyWritten extends Error {
  /** That were not written, or not to their ends. */
  readonly lostLines: number

  constructor(lostLines: number, cause: unknown) {
    super((cause as Error).message, { cause })
    this.lostLines = lostLines
  }
}

export function linesIn(bytes: Uint8Array): number {
  let lines = 0
  for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, at + 1)) lines++
  return lines
}

const NOT_A_FILE = ''
const LINE_END = Buffer.from('\n')

/** Undefined where there is nothing. */
async function identityOf(path: string): Promise<string | undefined> {
  try {
    const found = await stat(path)
    return found.isFile() ? `${found.dev}:${found.ino}` : NOT_A_FILE
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
