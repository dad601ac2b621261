import { connect, createServer, type Server, type Socket } from 'node:net'
import { type Owner, thisTest } from '../service/running.ts'
import { serverPort } from '../service/server-port.ts'

/** Which way bytes go: from the program to the server, or back. */
type Direction = 'requests' | 'answers'

/** A gate for as long as the test runs. */
export async function gateTo(port: number, owner: Owner = thisTest): Promise<TcpGate> {
  const gate = await TcpGate.to(port)
  owner.onTestFinished(() => gate.close())
  return gate
}

/** Stands between a program and the server on a port: sees all bytes, and can be a slow, a silent or a broken network. */
export class TcpGate {
  /** Accepted so far. */
  connections = 0
  readonly bytes = { requests: 0, answers: 0 }
  /** Answers are delayed by this. */
  delayMs = 0
  readonly #target: number
  readonly #port: number
  readonly #open = new Set<Passage>()
  readonly #held = new Set<Direction>()
  #server: Server | undefined
  #fuse: { direction: Direction; bytesLeft: number; blow: () => void } | undefined

  private constructor(target: number, port: number) {
    this.#target = target
    this.#port = port
  }

  /** `close` it in the end. */
  static async to(target: number): Promise<TcpGate> {
    const gate = new TcpGate(target, await serverPort())
    await gate.accept()
    return gate
  }

  get port(): number {
    return this.#port
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`
  }

  get openConnections(): number {
    return this.#open.size
  }

  /** Nothing passes any more, and nothing is closed. With `answers` alone, the server still gets the requests. */
  hold(...directions: readonly Direction[]): void {
    for (const direction of directions.length === 0 ? (['requests', 'answers'] as const) : directions) this.#held.add(direction)
  }

  /** What was held passes, late; of connections that were closed meanwhile nothing does. */
  release(): void {
    this.#held.clear()
    for (const passage of this.#open) passage.pump()
  }

  /** Ends all connections at once. */
  cut(): void {
    for (const passage of this.#open) passage.cut()
  }

  /** Lets so many more bytes of answers pass, then ends all connections: with 0, the server did what was asked, and the reply is lost. */
  cutAfterAnswerBytes(bytes: number): Promise<void> {
    return this.#lightFuse('answers', bytes)
  }

  /** Ends all connections when the next request comes, which never reaches the server. */
  cutBeforeNextRequest(): Promise<void> {
    return this.#lightFuse('requests', 0)
  }

  /** New connections are refused; those that are there stay. */
  refuse(): void {
    // Its callback would wait for the connections that stay.
    this.#server?.close()
    this.#server = undefined
  }

  /** Listens, on the same port as before. */
  async accept(): Promise<void> {
    if (this.#server !== undefined) return
    this.#server = createServer((client) => this.#take(client))
    await new Promise<void>((resolve, reject) => {
      this.#server!.once('error', reject).listen(this.#port, '127.0.0.1', resolve)
    })
  }

  close(): void {
    this.refuse()
    this.cut()
  }

  isHeld(direction: Direction): boolean {
    return this.#held.has(direction)
  }

  /** Counts what is about to pass and returns how many bytes of it may; if not all may, the connections are about to be cut. */
  admit(direction: Direction, length: number): number {
    const fuse = this.#fuse?.direction === direction ? this.#fuse : undefined
    const passing = Math.min(length, fuse?.bytesLeft ?? length)
    if (fuse !== undefined) fuse.bytesLeft -= passing
    this.bytes[direction] += passing
    return passing
  }

  blowFuse(): void {
    const fuse = this.#fuse
    this.#fuse = undefined
    this.cut()
    fuse?.blow()
  }

  #lightFuse(direction: Direction, bytesLeft: number): Promise<void> {
    return new Promise((blow) => {
      this.#fuse = { direction, bytesLeft, blow }
    })
  }

  #take(client: Socket): void {
    this.connections++
    const passage = new Passage(this, client, connect(this.#target, '127.0.0.1'))
    this.#open.add(passage)
    client.on('close', () => this.#open.delete(passage))
  }
}

/** One connection of the program's and the one to the server that belongs to it. */
class Passage {
  readonly #client: Socket
  readonly #server: Socket
  readonly #lanes: readonly Lane[]

  constructor(gate: TcpGate, client: Socket, server: Socket) {
    this.#client = client
    this.#server = server
    this.#lanes = [new Lane(gate, 'requests', client, server), new Lane(gate, 'answers', server, client)]
  }

  pump(): void {
    for (const lane of this.#lanes) lane.pump()
  }

  cut(): void {
    // What the program was given before it is cut off still reaches it.
    this.#client.destroySoon()
    this.#server.destroy()
  }
}

/** Bytes on their way in one direction, in the order in which they came. */
class Lane {
  readonly #gate: TcpGate
  readonly #direction: Direction
  readonly #to: Socket
  readonly #chunks: { readonly bytes: Buffer; readonly dueMs: number }[] = []
  #isFromClosed = false
  #timer: NodeJS.Timeout | undefined

  constructor(gate: TcpGate, direction: Direction, from: Socket, to: Socket) {
    this.#gate = gate
    this.#direction = direction
    this.#to = to
    from.setNoDelay(true)
    from.on('error', () => {}) // its 'close' follows
    from.on('data', (bytes) => {
      this.#chunks.push({ bytes, dueMs: performance.now() + (direction === 'answers' ? gate.delayMs : 0) })
      this.pump()
    })
    from.on('close', () => {
      this.#isFromClosed = true
      // A program that closed gets no answers, and its requests that were held are lost.
      if (direction === 'requests') this.#chunks.length = 0
      this.pump()
    })
  }

  pump(): void {
    clearTimeout(this.#timer)
    while (this.#chunks.length > 0) {
      if (this.#gate.isHeld(this.#direction)) return
      const waitMs = this.#chunks[0]!.dueMs - performance.now()
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.pump(), waitMs)
        return
      }
      const { bytes } = this.#chunks.shift()!
      const passing = this.#gate.admit(this.#direction, bytes.length)
      if (passing > 0 && this.#to.writable) this.#to.write(bytes.subarray(0, passing))
      if (passing < bytes.length) {
        this.#chunks.length = 0
        this.#gate.blowFuse()
      }
    }
    if (this.#isFromClosed && !(this.#direction === 'answers' && this.#gate.isHeld('answers'))) this.#to.destroySoon()
  }
}
