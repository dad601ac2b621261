import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import { thisTest } from '../service/running.ts'
import { until } from '../until.ts'

/** A client that speaks TLS, writes bytes and sees bytes. It trusts everybody, unless the test says otherwise. */
export class TlsClient {
  readonly socket: TLSSocket
  /** What has come, a character a byte. */
  received = ''
  isSecure = false
  hasEnded = false
  isClosed = false
  errorCode: string | undefined
  /** The latest session that the server has given to it. */
  session: Buffer | undefined

  private constructor(port: number, options: ConnectionOptions) {
    this.socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['http/1.1'], ...options })
    this.socket.allowHalfOpen = true
    this.socket.on('secureConnect', () => {
      this.isSecure = true
    })
    this.socket.on('session', (session) => {
      this.session = session
    })
    this.socket.on('data', (chunk: Buffer) => {
      this.received += chunk.toString('latin1')
    })
    this.socket.on('end', () => {
      this.hasEnded = true
      this.socket.end()
    })
    this.socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      this.errorCode ??= code
    })
    this.socket.on('close', () => {
      this.isClosed = true
    })
  }

  /** For as long as the test runs. */
  static connect(port: number, options: ConnectionOptions = {}, owner = thisTest): TlsClient {
    const client = new TlsClient(port, options)
    owner.onTestFinished(() => void client.socket.destroy())
    return client
  }

  /** The same; resolves when the handshake is over, well or not. */
  static async connected(port: number, options: ConnectionOptions = {}, owner = thisTest): Promise<TlsClient> {
    const client = TlsClient.connect(port, options, owner)
    await until(() => client.isSecure || client.isClosed)
    return client
  }

  /** What the server's certificate is for, such as `DNS:localhost`. */
  get names(): string | undefined {
    return this.socket.getPeerCertificate().subjectaltname
  }

  send(text: string): void {
    this.socket.write(text, 'latin1')
  }

  /** Sends a request and waits for the end of its response's head. */
  async ask(request: string): Promise<string> {
    const before = this.received.length
    this.send(request)
    await until(() => this.isClosed || this.received.includes('\r\n\r\n', before))
    return this.received.slice(before)
  }

  /** Resolves with all that has come when the connection is closed. */
  async closed(): Promise<string> {
    await until(() => this.isClosed)
    return this.received
  }
}
