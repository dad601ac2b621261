import { createGzip } from 'node:zlib'

/** Compresses piece by piece: each can be decompressed before the next one is there. */
export class PiecewiseGzip {
  readonly #gzip = createGzip()
  #chunks: Buffer[] = []

  constructor() {
    this.#gzip.on('data', (chunk: Buffer) => this.#chunks.push(chunk))
  }

  async write(bytes: Buffer): Promise<Buffer> {
    this.#gzip.write(bytes)
    await new Promise<void>((resolve) => this.#gzip.flush(resolve))
    return this.#take()
  }

  async end(): Promise<Buffer> {
    await new Promise<void>((resolve) => {
      this.#gzip.once('end', resolve)
      this.#gzip.end()
    })
    return this.#take()
  }

  /** For one that does not come to its end. */
  destroy(): void {
    this.#gzip.destroy()
  }

  #take(): Buffer {
    const bytes = Buffer.concat(this.#chunks)
    this.#chunks = []
    return bytes
  }
}
