import { bundle } from '../bundles/bundles.ts'
import type { Edge, EdgeOptions } from '../service/edge.ts'
import { running } from '../service/running.ts'
import { type Handler, HttpBackend } from './backend.ts'

/** Both ways in which a proxy reads HTTP/1.1. */
export const WIRES = [
  ['its own wire', {}],
  ['node:http', { EDGE_PROXY_WIRE: 'node' }],
] as const

type RouteJson = Readonly<Record<string, unknown>>

interface RoutedOptions extends EdgeOptions {
  /** By name, whatever a bundle may say of a backend beside its URL. */
  readonly more?: Readonly<Record<string, object>>
  /** Beside the routes. */
  readonly policies?: readonly object[]
  readonly prices?: object
}

/** A proxy without EDGE_BACKEND_URL whose bundle has these backends and routes. */
export function routing(
  backends: Readonly<Record<string, { readonly url: string }>>,
  routes: readonly RouteJson[],
  { more = {}, policies = [], prices, env, ...options }: RoutedOptions = {},
): Promise<Edge> {
  return running({
    bundle: { ...routedBundle(1, backends, routes, more, policies), ...(prices && { prices }) },
    ...options,
    env: { ...ROUTED_ENV, EDGE_BACKEND_HOSTS: hostsOf(backends), ...env },
  })
}

export function routedBundle(
  version: number,
  backends: Readonly<Record<string, { readonly url: string }>>,
  routes: readonly RouteJson[],
  more: Readonly<Record<string, object>> = {},
  policies: readonly object[] = [],
): object {
  const named = Object.fromEntries(Object.entries(backends).map(([name, { url }]) => [name, { url, ...more[name] }]))
  return { ...bundle(version, ...(policies as Parameters<typeof bundle>[1][])), backends: named, routes }
}

const ROUTED_ENV = {
  EDGE_MODE: 'reverse_proxy',
  EDGE_WORKERS: '1',
  EDGE_SHUTDOWN_MS: '0',
  EDGE_BACKEND_CONNECT_TIMEOUT_MS: '60000',
  EDGE_BACKEND_QUEUE_MS: '60000',
}

export function hostsOf(backends: Readonly<Record<string, { readonly url: string }>>): string {
  return Object.values(backends)
    .map(({ url }) => new URL(url).host)
    .join(',')
}

/** A backend that answers with its name, after it has read the whole body. */
export function named(name: string): Promise<HttpBackend> {
  return HttpBackend.start(saying(name))
}

export function saying(text: string, status = 200, headers: Readonly<Record<string, string>> = {}): Handler {
  return async (_, res, seen) => {
    await seen.body().catch(() => undefined)
    res.writeHead(status, { 'Content-Type': 'text/plain', ...headers }).end(text)
  }
}
