import { connect, type Socket } from 'node:net'

/** Asks many questions in one write, on a connection that it keeps. */
export class DecisionClient {
  readonly port: number
  #socket: Socket | undefined
  #text = ''
  #statuses: number[] = []
  #awaited = 0
  #settle: (() => void) | undefined

  constructor(port: number) {
    this.port = port
  }

  /** Returns a status for each question, undefined where none came; nothing at all where nobody was there to ask. */
  async ask(bytes: Buffer, count: number): Promise<(number | undefined)[]> {
    const socket = await this.#connected()
    if (socket === undefined) return []
    this.#statuses = []
    this.#awaited = count
    await new Promise<void>((resolve) => {
      this.#settle = resolve
      socket.write(bytes)
    })
    return Array.from({ length: count }, (_, i) => this.#statuses[i])
  }

  /** Asks and goes away without waiting. Returns whether it could ask. */
  async abandon(bytes: Buffer, isReset: boolean): Promise<boolean> {
    const socket = await this.#connected()
    if (socket === undefined) return false
    socket.write(bytes)
    if (isReset) socket.resetAndDestroy()
    else socket.destroy()
    this.#socket = undefined
    return true
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = undefined
  }

  async #connected(): Promise<Socket | undefined> {
    if (this.#socket !== undefined) return this.#socket
    const socket = connect({ port: this.port, host: '127.0.0.1', noDelay: true })
    socket.on('data', (chunk) => this.#hear(chunk.toString('latin1')))
    socket.on('error', () => {}) // its 'close' follows
    socket.on('close', () => {
      if (socket !== this.#socket) return
      this.#socket = undefined
      this.#finish()
    })
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true)).once('close', () => resolve(false))
    })
    if (!isOpen) return undefined
    this.#text = ''
    this.#socket = socket
    return socket
  }

  /** No answer has a body. */
  #hear(text: string): void {
    this.#text += text
    for (let end = this.#text.indexOf('\r\n\r\n'); end >= 0; end = this.#text.indexOf('\r\n\r\n')) {
      this.#statuses.push(Number(this.#text.slice(9, 12)))
      this.#text = this.#text.slice(end + 4)
    }
    if (this.#statuses.length >= this.#awaited) this.#finish()
  }

  #finish(): void {
    this.#settle?.()
    this.#settle = undefined
  }
}
