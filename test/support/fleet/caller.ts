import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { readAnswers, type WireAnswer } from '../service/wire.ts'

/** How long to leave a server alone that does not listen. */
const REFUSED_MS = 10

/** Asks one question at a time, on a connection that it keeps; on a new one after that has ended. */
export class Caller {
  readonly #port: number
  #socket: Socket | undefined
  #text = ''
  #settle: ((answer: WireAnswer | undefined) => void) | undefined

  constructor(port: number) {
    this.#port = port
  }

  /** Returns undefined without a response: then nothing was let through, whatever became of the question. */
  async ask(question: Buffer): Promise<WireAnswer | undefined> {
    this.#socket ??= await this.#connect()
    if (this.#socket === undefined) {
      await sleep(REFUSED_MS)
      return undefined
    }
    const answer = await new Promise<WireAnswer | undefined>((resolve) => {
      this.#settle = resolve
      this.#socket!.write(question)
    })
    if (answer?.headers['connection'] === 'close') this.close()
    return answer
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = undefined
  }

  async #connect(): Promise<Socket | undefined> {
    const socket = connect({ port: this.#port, host: '127.0.0.1', noDelay: true })
    this.#text = ''
    socket.on('data', (chunk) => this.#onText(chunk.toString('latin1')))
    // 'close' follows.
    socket.on('error', () => {})
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true)).once('close', () => resolve(false))
    })
    if (!isOpen) return undefined
    socket.once('close', () => {
      if (socket === this.#socket) this.#socket = undefined
      this.#answer(undefined)
    })
    return socket
  }

  /** No answer has a body. */
  #onText(text: string): void {
    this.#text += text
    if (!this.#text.endsWith('\r\n\r\n')) return
    const [answer] = readAnswers(this.#text)
    this.#text = ''
    this.#answer(answer)
  }

  #answer(answer: WireAnswer | undefined): void {
    this.#settle?.(answer)
    this.#settle = undefined
  }
}
