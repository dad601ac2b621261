import type { HttpListener } from '../listen/http-listener.ts'
import type { ListenerServer } from '../listen/listener-servers.ts'
import type { ListenTarget, PortAddress } from '../listen/listeners.ts'
import type { ProxyFront } from '../proxy/proxy-front.ts'

/** A listener of `reverse_proxy` and the proxy front behind it. */
export class ProxyServer implements ListenerServer {
  readonly #front: ProxyFront
  readonly #listener: HttpListener

  constructor(front: ProxyFront, listener: HttpListener) {
    this.#front = front
    this.#listener = listener
  }

  listen(target: ListenTarget): Promise<PortAddress | undefined> {
    return this.#listener.listen(target)
  }

  drain(): void {
    this.#listener.drain()
    this.#front.drain()
  }

  async close(graceMs: number): Promise<void> {
    this.drain()
    await this.#listener.close(graceMs, () => this.#front.cutTunnels())
    this.#front.close()
  }
}
