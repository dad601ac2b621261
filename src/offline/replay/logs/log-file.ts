import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'

/** Size of the pieces, of a file or of what it decompresses to. */
const PIECE_BYTES = 128 * 1024

/** A log cannot be read at all; the message says why. */
export class LogProblem extends Error {}

/** Reads a file, or `-` for standard input, in pieces, and decompresses gzip. It reads ahead by no more than a piece or two. */
export class LogFile {
  readonly name: string
  /** Bytes as on disk, that is, before decompression. */
  bytesRead = 0
  isCompressed = false
  /** Why the rest was not read; undefined if there was nothing wrong. */
  damage: string | undefined
  /** The error that `next` has thrown. */
  failure: unknown
  readonly #command: string
  #stream: Readable | undefined
  #pieces: AsyncIterator<Buffer> | undefined

  /** `command` is what advice says to pipe decompressed bytes into, such as `edge replay …`. */
  constructor(name: string, command: string) {
    this.name = name
    this.#command = command
  }

  /** Returns the next piece as a latin1 string; undefined at the end. Throws errors of the file system, or a LogProblem. */
  async next(): Promise<string | undefined> {
    try {
      this.#pieces ??= await this.#open()
      const { done, value } = await this.#pieces.next()
      return done ? undefined : value.toString('latin1')
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code?.startsWith('Z_') !== true) {
        this.failure = error
        throw error
      }
      this.damage = code === 'Z_BUF_ERROR' ? 'its compressed data ends early' : 'its compressed data is damaged'
      return undefined
    }
  }

  close(): void {
    this.#stream?.destroy()
  }

  async #open(): Promise<AsyncIterator<Buffer>> {
    const raw = this.#rawPieces()
    let start = Buffer.alloc(0)
    while (start.length < LONGEST_MARK) {
      const { done, value } = await raw.next()
      if (done) break
      start = Buffer.concat([start, value])
    }
    refuse(start, this.#command)
    const pieces = continued(start, raw)
    this.isCompressed = hasMark(start, GZIP)
    if (!this.isCompressed) return pieces
    const gunzip = createGunzip({ chunkSize: PIECE_BYTES })
    Readable.from(pieces, { objectMode: false })
      .on('error', (error) => gunzip.destroy(error))
      .pipe(gunzip)
    return gunzip[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  }

  async *#rawPieces(): AsyncGenerator<Buffer, void> {
    this.#stream = this.name === '-' ? process.stdin : createReadStream(this.name, { highWaterMark: PIECE_BYTES })
    for await (const piece of this.#stream as AsyncIterable<Buffer>) {
      this.bytesRead += piece.length
      yield piece
    }
  }
}

async function* continued(start: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
  if (start.length > 0) yield start
  yield* rest
}

const GZIP = [0x1f, 0x8b]
const LONGEST_MARK = 4

const UNSUPPORTED: readonly (readonly [mark: readonly number[], what: string])[] = [
  [[0x28, 0xb5, 0x2f, 0xfd], 'it is compressed by zstd; decompress it first: zstdcat FILE | COMMAND -'],
  [[0x42, 0x5a, 0x68], 'it is compressed by bzip2; decompress it first: bzcat FILE | COMMAND -'],
  [[0xfd, 0x37, 0x7a, 0x58], 'it is compressed by xz; decompress it first: xzcat FILE | COMMAND -'],
  [[0x50, 0x4b, 0x03, 0x04], 'it is a zip archive; unpack it first'],
  [[0xff, 0xfe], 'it is in UTF-16; convert it to UTF-8 first'],
  [[0xfe, 0xff], 'it is in UTF-16; convert it to UTF-8 first'],
]

function refuse(start: Buffer, command: string): void {
  for (const [mark, what] of UNSUPPORTED) if (hasMark(start, mark)) throw new LogProblem(what.replace('COMMAND', command))
}

function hasMark(start: Buffer, mark: readonly number[]): boolean {
  return mark.every((byte, i) => start[i] === byte)
}
