import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { type BackendAnswer, backendAnswer } from './backend-answers.ts'

/** A request as a backend got it, without what depends on when its bytes came. */
export interface RecordedRequest {
  /** Byte for byte, but for the backend's own address. */
  readonly head: string
  /** Without its frames. */
  readonly body: string
  readonly trailers: string
  /** The connection was closed before all of it had come. */
  readonly isCut: boolean
}

/** A backend that reads requests strictly, notes all that came, and answers each as its field X-Answer says. */
export class RecordingBackend {
  /** In the order in which they ended. */
  requests: RecordedRequest[] = []
  /** What a proxy should never send. */
  readonly rubbish: string[] = []
  /** Requests that are read or answered. */
  open = 0
  /** Host and port. */
  address = ''
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor() {
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      this.#sockets.add(socket)
      socket.on('error', () => {}) // its 'close' follows
      socket.on('close', () => this.#sockets.delete(socket))
      new Connection(this, socket)
    })
  }

  static async listen(): Promise<RecordingBackend> {
    const backend = new RecordingBackend()
    await new Promise<void>((resolve) => backend.#server.listen(0, '127.0.0.1', resolve))
    backend.address = `127.0.0.1:${(backend.#server.address() as AddressInfo).port}`
    return backend
  }

  get url(): string {
    return `http://${this.address}`
  }

  /** Returns what came since the last call. */
  take(): RecordedRequest[] {
    const { requests } = this
    this.requests = []
    return requests
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
      for (const socket of this.#sockets) socket.destroy()
    })
  }
}

type State = 'head' | 'length' | 'size' | 'chunk' | 'trailers' | 'tunnel' | 'rubbish'

/** One connection of a proxy: reads one request after the other. */
class Connection {
  readonly #backend: RecordingBackend
  readonly #socket: Socket
  #state: State = 'head'
  #unread = ''
  #head = ''
  #body: string[] = []
  #bytesLeft = 0
  #isOpen = false
  #answer: Promise<void> | undefined

  constructor(backend: RecordingBackend, socket: Socket) {
    this.#backend = backend
    this.#socket = socket
    socket.on('data', (chunk: Buffer) => {
      this.#unread += chunk.toString('latin1')
      while (this.#step());
    })
    socket.on('end', () => {
      this.#close()
      socket.end()
    })
    socket.on('close', () => this.#close())
  }

  /** Reads the next part of a request. Returns false when more bytes are needed. */
  #step(): boolean {
    switch (this.#state) {
      case 'head':
        // RFC 9112 2.2: an empty line before a request is skipped
        if (this.#unread.startsWith('\r\n')) return this.#skip(2)
        return this.#readUntil('\r\n\r\n', (head) => this.#begin(head))
      case 'length':
      case 'chunk':
        return this.#readBody()
      case 'size':
        return this.#readUntil('\r\n', (line) => {
          if (!/^[0-9a-f]{1,8}\r\n$/.test(line)) return this.#refuse(line)
          this.#bytesLeft = Number.parseInt(line, 16)
          this.#state = this.#bytesLeft === 0 ? 'trailers' : 'chunk'
        })
      case 'trailers':
        if (this.#unread.startsWith('\r\n')) return this.#skip(2, () => this.#end(''))
        return this.#readUntil('\r\n\r\n', (trailers) => this.#end(trailers))
      case 'tunnel':
        this.#body.push(this.#unread)
        this.#socket.write(this.#unread, 'latin1')
        this.#unread = ''
        return false
      case 'rubbish':
        return false
    }
  }

  #begin(head: string): void {
    this.#backend.open++
    this.#isOpen = true
    this.#head = head
    this.#body = []
    const length = /^content-length: (.*)\r$/im.exec(head)?.[1]
    const coding = /^transfer-encoding: (.*)\r$/im.exec(head)?.[1]
    if (!/^[!-~]+ [!-\xff]+ HTTP\/1\.1\r\n/.test(head) || (length !== undefined && coding !== undefined)) return this.#refuse(head)
    if ((length !== undefined && !/^\d+$/.test(length)) || (coding !== undefined && coding !== 'chunked')) return this.#refuse(head)
    const answer = backendAnswer(head)
    if (answer.isEarly) this.#send(answer)
    if (answer.isTunnel) {
      this.#send(answer)
      this.#state = 'tunnel'
    } else if (coding !== undefined) this.#state = 'size'
    else {
      this.#bytesLeft = Number(length ?? 0)
      this.#state = 'length'
      if (this.#bytesLeft === 0) this.#end('')
    }
  }

  #readBody(): boolean {
    const isChunk = this.#state === 'chunk'
    if (this.#bytesLeft > 0) {
      if (this.#unread === '') return false
      const part = this.#unread.slice(0, this.#bytesLeft)
      this.#body.push(part)
      this.#bytesLeft -= part.length
      this.#unread = this.#unread.slice(part.length)
      if (!isChunk && this.#bytesLeft === 0) this.#end('')
      return true
    }
    if (this.#unread.length < 2) return false
    if (!this.#unread.startsWith('\r\n')) {
      this.#refuse(this.#unread)
      return false
    }
    return this.#skip(2, () => {
      this.#state = 'size'
    })
  }

  /** The request has come whole. */
  #end(trailers: string): void {
    const head = this.#head
    this.#state = 'head'
    this.#note(trailers, false)
    const answer = backendAnswer(head)
    if (!answer.isEarly) this.#send(answer)
  }

  #send(answer: BackendAnswer): void {
    this.#backend.open++
    // Answers stay in order, whatever comes while one is on its way.
    this.#answer = (this.#answer ?? Promise.resolve()).then(async () => {
      for (const piece of answer.pieces) {
        if (this.#socket.writable) this.#socket.write(piece, 'latin1')
        await turn()
      }
      if (answer.isLast) this.#socket.end()
      this.#backend.open--
    })
  }

  #note(trailers: string, isCut: boolean): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#backend.open--
    const head = this.#head.replace(this.#backend.address, 'backend')
    this.#backend.requests.push({ head, body: this.#body.join(''), trailers, isCut })
  }

  #close(): void {
    const isTunnel = this.#state === 'tunnel'
    if (this.#state === 'head' && this.#unread !== '') this.#refuse(this.#unread)
    this.#note('', !isTunnel)
    this.#state = 'rubbish'
  }

  #refuse(bytes: string): void {
    this.#state = 'rubbish'
    this.#backend.rubbish.push(bytes)
    this.#socket.destroy()
  }

  #skip(count: number, then = (): void => {}): boolean {
    this.#unread = this.#unread.slice(count)
    then()
    return true
  }

  #readUntil(end: string, take: (text: string) => void): boolean {
    const at = this.#unread.indexOf(end)
    if (at < 0) return false
    const text = this.#unread.slice(0, at + end.length)
    this.#unread = this.#unread.slice(text.length)
    take(text)
    return true
  }
}
