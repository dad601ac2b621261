import type { ServerConfig } from '../config/config.ts'
import { closingGroups, type ListenAddress, type ListenerName, type ListenTarget, listener, type PortAddress } from './listeners.ts'

/** The servers of one worker, by listener name. */
export class ListenerServers {
  readonly #config: ServerConfig
  readonly #servers: ReadonlyMap<ListenerName, ListenerServer>
  readonly #listening = new Set<ListenerName>()
  #isDraining = false

  constructor(config: ServerConfig, servers: ReadonlyMap<ListenerName, ListenerServer>) {
    this.#config = config
    this.#servers = servers
  }

  /** Whether all listeners that serve requests are open. */
  get isListening(): boolean {
    return [...this.#servers.keys()].every((name) => this.#listening.has(name) || listener(name).opens === 'early')
  }

  get isDraining(): boolean {
    return this.#isDraining
  }

  async listen(name: ListenerName, target: ListenTarget): Promise<ListenAddress> {
    const port = await this.#servers.get(name)!.listen(target)
    this.#listening.add(name)
    return port ?? listener(name).address(this.#config)!
  }

  /** Stops being ready but keeps serving, since load balancers need time to notice. */
  drain(): void {
    this.#isDraining = true
    for (const server of this.#servers.values()) server.drain()
  }

  async close(): Promise<void> {
    this.drain()
    for (const group of closingGroups([...this.#servers.keys()])) {
      await Promise.all(group.map((name) => this.#servers.get(name)!.close(listener(name).closeMs(this.#config))))
    }
  }
}

/** The server behind a listener, whatever protocol it speaks. */
export interface ListenerServer {
  /** Resolves when connections are accepted. Returns the address, since the system may have chosen the port; undefined for a unix socket. */
  listen(target: ListenTarget): Promise<PortAddress | undefined>
  /** Keeps serving, but every response from now on is the last on its connection. */
  drain(): void
  /** Stops accepting, lets open requests end, and cuts what is left after `graceMs`. */
  close(graceMs: number): Promise<void>
}
