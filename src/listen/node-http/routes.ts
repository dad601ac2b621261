import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HeaderList } from '../../http1/header-fields.ts'

export type Handle = (req: IncomingMessage, res: ServerResponse) => void

export interface Route {
  /** A path that ends in `/` also covers everything below it, but `/` alone covers only itself. */
  readonly path: string
  /** Undefined allows any method. */
  readonly methods: readonly string[] | undefined
  handle(req: IncomingMessage, res: ServerResponse): void | Promise<void>
}

/** Finds the handler of a request by path and method. Paths are compared without being normalised. */
export class Routes {
  readonly #byPath = new Map<string, Route[]>()
  /** Paths that cover everything below them, longest first. */
  readonly #prefixes: readonly string[]

  constructor(routes: Iterable<Route>) {
    for (const route of routes) {
      const others = this.#byPath.get(route.path)
      if (others === undefined) this.#byPath.set(route.path, [route])
      else others.push(route)
    }
    this.#prefixes = [...this.#byPath.keys()].filter((path) => path.length > 1 && path.endsWith('/')).sort((a, b) => b.length - a.length)
  }

  has(path: string): boolean {
    return this.#at(path) !== undefined
  }

  /** Hands a request to its route. Whatever the route throws reaches `onError`, never the process. */
  dispatch(req: IncomingMessage, res: ServerResponse, onError: (res: ServerResponse, error: unknown) => void): void {
    const routes = this.#at(pathOf(req.url!))
    if (routes === undefined) return respondNotFound(req, res)
    const route = routes.find(({ methods }) => methods?.includes(req.method!) ?? true)
    if (route === undefined) return respondEmpty(res, 405, ['Allow', routes.flatMap(({ methods }) => methods ?? []).join(', ')])
    try {
      route.handle(req, res)?.catch((error: unknown) => onError(res, error))
    } catch (error) {
      onError(res, error)
    }
  }

  #at(path: string): readonly Route[] | undefined {
    const exact = this.#byPath.get(path)
    if (exact !== undefined || this.#prefixes.length === 0) return exact
    const prefix = this.#prefixes.find((start) => path.startsWith(start))
    return prefix === undefined ? undefined : this.#byPath.get(prefix)
  }
}

/** Whoever looks for the operators' page begins at `/`, often at the wrong port. */
const NO_PAGE = "no such endpoint; the operators' page is on EDGE_ADMIN_PORT, if EDGE_ADMIN_TOKEN is set too\n"

export function respondNotFound(req: IncomingMessage, res: ServerResponse): void {
  respondText(res, 404, 'text/plain; charset=utf-8', pathOf(req.url!) === '/' ? NO_PAGE : 'no such endpoint\n')
}

/** Returns the path of a target, without normalising it. */
export function pathOf(target: string): string {
  const path = originForm(target)
  const query = path.indexOf('?')
  return query < 0 ? path : path.slice(0, query)
}

/** Removes scheme and host from a target in absolute form, which a server must accept (RFC 9112 3.2.2). */
export function originForm(target: string): string {
  return target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]*/i, '')
}

/** Responds without a body. Gateways reuse a connection only if they know where the response ends. */
export function respondEmpty(res: ServerResponse, status: number, headers: HeaderList = []): void {
  headers.push('Content-Length', '0')
  res.writeHead(status, headers)
  res.end()
}

export function respondText(
  res: ServerResponse,
  status: number,
  contentType: string,
  body: string | Buffer,
  headers: HeaderList = [],
): void {
  const own = ['Content-Type', contentType, 'Content-Length', String(Buffer.byteLength(body)), 'Cache-Control', 'no-store']
  res.writeHead(status, [...own, ...headers])
  res.end(body)
}

export function respondJson(res: ServerResponse, status: number, body: unknown): void {
  respondText(res, status, 'application/json', JSON.stringify(body))
}
