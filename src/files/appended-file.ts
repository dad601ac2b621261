import { constants } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'

/**
 * A file of lines that is opened for appending. A new one gets mode 0600, because it contains callers' values. Whatever an earlier write left behind, each
 * line begins at the start of a line.
 */
export class AppendedFile {
  readonly #file: FileHandle
  /** Device and inode, which tell this file from another that has its name by now. */
  readonly #identity: string
  /** Whether the last line has no line end, so that the next one must not continue it. */
  #isLineOpen: boolean

  private constructor(file: FileHandle, identity: string, isLineOpen: boolean) {
    this.#file = file
    this.#identity = identity
    this.#isLineOpen = isLineOpen
  }

  static async open(path: string): Promise<AppendedFile> {
    // Opening a pipe would wait for somebody to read it.
    if ((await identityOf(path)) === NOT_A_FILE) throw new Error('it is not a regular file')
    const file = await open(path, constants.O_RDWR | constants.O_APPEND | constants.O_CREAT, 0o600)
    const { dev, ino, size } = await file.stat()
    const last = Buffer.from('\n')
    if (size > 0) await file.read(last, 0, 1, size - 1)
    return new AppendedFile(file, `${dev}:${ino}`, last[0] !== LINE_END)
  }

  /** Whether the path still leads to this file; it does not after a log rotation. */
  async isAt(path: string): Promise<boolean> {
    return (await identityOf(path)) === this.#identity
  }

  /** Appends whole lines. Throws a PartlyWritten if not everything could be written. */
  async append(lines: Buffer): Promise<void> {
    if (this.#isLineOpen) {
      await this.#write(Buffer.of(LINE_END), lines)
      this.#isLineOpen = false
    }
    await this.#write(lines, lines)
  }

  /** Waits until what was appended would survive a crash of the machine. */
  sync(): Promise<void> {
    return this.#file.datasync()
  }

  close(): Promise<void> {
    return this.#file.close()
  }

  async #write(bytes: Buffer, lines: Buffer): Promise<void> {
    let written = 0
    try {
      while (written < bytes.length) written += (await this.#file.write(bytes, written)).bytesWritten
    } catch (error) {
      if (written > 0) this.#isLineOpen = bytes[written - 1] !== LINE_END
      throw new PartlyWritten(bytes === lines ? lines.subarray(lostFrom(lines, written)) : lines, error)
    }
  }
}

/** Not all lines could be written. */
export class PartlyWritten extends Error {
  /** The lines that were not written, or not completely. */
  readonly lost: Buffer

  constructor(lost: Buffer, cause: unknown) {
    super((cause as Error).message, { cause })
    this.lost = lost
  }
}

export function linesIn(bytes: Uint8Array): number {
  let lines = 0
  for (let at = bytes.indexOf(LINE_END); at >= 0; at = bytes.indexOf(LINE_END, at + 1)) lines++
  return lines
}

/** Returns where the first line begins that is incomplete. One that lacks only its line end is complete: the next line begins with it. */
function lostFrom(lines: Buffer, written: number): number {
  if (written === 0) return 0
  if (lines[written] === LINE_END) return written + 1
  return lines.lastIndexOf(LINE_END, written - 1) + 1
}

const NOT_A_FILE = ''
const LINE_END = 0x0a

/** Returns undefined if nothing exists at the path. */
async function identityOf(path: string): Promise<string | undefined> {
  try {
    const found = await stat(path)
    return found.isFile() ? `${found.dev}:${found.ino}` : NOT_A_FILE
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
