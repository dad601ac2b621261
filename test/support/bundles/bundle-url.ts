import type { Edge } from '../service/edge.ts'
import { ManualClock } from '../service/manual-clock.ts'
import { type Environment, type Owner, running } from '../service/running.ts'
import { until } from '../until.ts'
import { BundleServer } from './bundle-server.ts'
import { burstJson, burstYaml } from './bundles.ts'

/** A bundle that is known by its burst: eleven times its version. */
export function known(version: number): string {
  return burstJson(version, version * 11)
}

export function knownYaml(version: number): string {
  return burstYaml(version, version * 11)
}

/** One worker is enough: it is the main thread that fetches. */
export function urlEnv(url: string, env: Environment = {}): Environment {
  return { EDGE_WORKERS: '1', EDGE_CONFIG_FILE: '', EDGE_CONFIG_URL: url, EDGE_CONFIG_POLL_INTERVAL: '0.1', ...env }
}

/** The service in this process, with its bundles from there, once it has told of its first poll. */
export async function fetching(url: string, env: Environment, owner: Owner): Promise<Edge> {
  const edge = await running({ env: urlEnv(url, env), clock: new ManualClock() }, owner)
  await until(() => edge.log.some((entry) => entry['url'] !== undefined))
  return edge
}

/** The same, with a server that has version 1 to begin with. */
export async function fetchingFirst(owner: Owner, env: Environment = {}): Promise<{ edge: Edge; source: BundleServer }> {
  const source = await BundleServer.start(owner)
  source.publish(known(1))
  const edge = await fetching(source.url, env, owner)
  return { edge, source }
}

export async function limit(edge: Edge): Promise<string | undefined> {
  return (await edge.decide()).headers['ratelimit-limit']
}

export function reloads(edge: Edge, result: string): Promise<number> {
  return edge.metric(`edge_bundle_reloads_total{result="${result}"}`)
}

/** Waits for a log entry of this kind, and answers the first after `seen` lines. */
export async function logged(edge: Pick<Edge, 'log'>, name: string, seen = 0): Promise<Readonly<Record<string, unknown>>> {
  const found = (): Readonly<Record<string, unknown>> | undefined => edge.log.slice(seen).find(({ event }) => event === name)
  await until(() => found() !== undefined)
  return found()!
}
