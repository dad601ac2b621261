import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import * as type from '../../../src/doors/grpc/http2/frame-reader.ts'
import { until } from '../until.ts'
import { FieldReader } from './field-reader.ts'
import { type Frame, framesIn } from './frames.ts'
import { messagesIn } from './grpc-client.ts'

/** What came back on one stream. */
export interface RawResult {
  readonly fields: Readonly<Record<string, string>>
  readonly messages: readonly string[]
  readonly hasEnded: boolean
  readonly resetCode: number | undefined
}

/** A client that writes frames as the test likes. */
export class RawHttp2 {
  readonly socket: Socket
  readonly frames: Frame[] = []
  isClosed = false
  #rest = Buffer.alloc(0)
  readonly #fields = new FieldReader()
  readonly #results = new Map<
    number,
    { fields: Record<string, string>; body: Buffer[]; hasEnded: boolean; resetCode: number | undefined }
  >()

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1')
    this.socket.on('data', (chunk: Buffer) => this.#read(chunk))
    this.socket.on('error', () => {}) // its 'close' follows
    this.socket.on('close', () => {
      this.isClosed = true
    })
    onTestFinished(() => void this.socket.destroy())
  }

  /** What came before frames did. */
  get text(): string {
    return this.#rest.toString('latin1')
  }

  send(...pieces: readonly Uint8Array[]): void {
    this.socket.write(Buffer.concat(pieces))
  }

  result(streamId: number): RawResult {
    const { fields = {}, body = [], hasEnded = false, resetCode } = this.#results.get(streamId) ?? {}
    return { fields, messages: messagesIn(Buffer.concat(body)), hasEnded, resetCode }
  }

  /** A result that changes no more. */
  async ended(streamId: number): Promise<RawResult> {
    await until(() => this.isClosed || this.result(streamId).hasEnded || this.result(streamId).resetCode !== undefined)
    return this.result(streamId)
  }

  /** The error of the GOAWAY that ended the connection. */
  async goAway(): Promise<number | undefined> {
    await until(() => this.isClosed || this.goAwayCodes().some((code) => code !== type.NO_ERROR))
    return this.goAwayCodes().at(-1)
  }

  goAwayCodes(): number[] {
    return this.frames.filter((frame) => frame.type === type.GOAWAY).map(({ payload }) => payload.readUInt32BE(4))
  }

  async closed(): Promise<void> {
    await until(() => this.isClosed)
  }

  #read(chunk: Buffer): void {
    const bytes = Buffer.concat([this.#rest, chunk])
    const { frames, length } = framesIn(bytes)
    this.#rest = bytes.subarray(length)
    this.frames.push(...frames)
    for (const each of frames) this.#note(each)
  }

  #note({ type: frameType, flags, streamId, payload }: Frame): void {
    if (streamId === 0) return
    const result = this.#results.get(streamId) ?? { fields: {}, body: [], hasEnded: false, resetCode: undefined }
    this.#results.set(streamId, result)
    if (frameType === type.HEADERS) Object.assign(result.fields, Object.fromEntries(this.#fields.read(payload)))
    if (frameType === type.DATA) result.body.push(payload)
    if (frameType === type.RST_STREAM) result.resetCode = payload.readUInt32BE(0)
    if ((frameType === type.HEADERS || frameType === type.DATA) && (flags & type.END_STREAM) !== 0) result.hasEnded = true
  }
}
