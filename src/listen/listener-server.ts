import type { ListenTarget, PortAddress } from './listen-address.ts'

/** What a listener needs of the server behind it, whatever protocol that speaks. */
export interface ListenerServer {
  /** Done when connections are accepted. Returns where: the system may have chosen the port. Undefined for a unix socket. */
  listen(target: ListenTarget): Promise<PortAddress | undefined>
  /** Serves on, but from now on every response is the last on its connection. */
  drain(): void
  /** Accepts nothing more, lets open requests end, and cuts what is left after `graceMs`. */
  close(graceMs: number): Promise<void>
}
