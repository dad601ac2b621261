import { Agent, request } from 'node:http'
import { join } from 'node:path'
import { replaceFile } from '../bundles/bundle-file.ts'
import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { ask, type Fields } from '../service/http.ts'
import { original } from '../service/wire.ts'
import { until } from '../until.ts'
import type { Container } from './container.ts'

/** So many callers at once, each on a connection that it keeps. */
const CALLERS = 200

/** Asks for decisions, each for another path, and returns how often each status came. */
export function decisions(port: number, count: number): Promise<Map<number, number>> {
  return load(port, count, (i) => ({
    method: 'POST',
    path: '/v1/decision',
    fields: original(`/${i}`, ['X-Api-Key', `caller-${i % 5000}`]),
  }))
}

/** Sends request bodies through the proxy. */
export function uploads(port: number, count: number, bodyBytes: number): Promise<Map<number, number>> {
  const body = Buffer.alloc(bodyBytes, 'x')
  return load(port, count, (i) => ({ method: 'POST', path: `/${i}`, fields: [['Content-Length', String(bodyBytes)]], body }))
}

/**
 * Replaces the bundle several times by one with so many policies, each for a path of its own, and waits for each to be active. Throws if one is
 * refused.
 */
export async function reloads(container: Container, folder: string, count: number, policies: number): Promise<void> {
  for (let version = 2; version < 2 + count; version++) {
    const rules = [bucketRule('r', ['header:x-api-key'], 100)]
    const many = Array.from({ length: policies }, (_, i) => policy(`p${i}`, { selector: { pathPrefix: `/${i}` }, rules }))
    await replaceFile(join(folder, 'bundle.json'), JSON.stringify(bundle(version, ...many)))
    const isRefused = (): boolean => container.stderr.includes('"event":"bundle_refused"')
    await until(async () => container.hasEnded || isRefused() || (await activeVersion(container)) === String(version))
    if (container.hasEnded) return
    if (isRefused()) throw new Error(`the container refuses version ${version}:\n${container.stderr}`)
  }
}

/** Asked from outside: `edge health` in the container would take memory of it. Undefined if there is no answer. */
async function activeVersion({ env }: Container): Promise<string | undefined> {
  const { body } = await ask(Number(env['EDGE_ADMIN_PORT']), 'GET', '/readyz').catch(() => ({ body: '{}' }))
  return (JSON.parse(body) as { policy_version?: string }).policy_version
}

interface Question {
  readonly method: string
  readonly path: string
  readonly fields: Fields
  readonly body?: Buffer
}

/** A question that got no answer has the status 0. */
async function load(port: number, count: number, questionOf: (index: number) => Question): Promise<Map<number, number>> {
  const agent = new Agent({ keepAlive: true, maxSockets: CALLERS })
  const statuses = new Map<number, number>()
  let next = 0
  const caller = async (): Promise<void> => {
    while (next < count) {
      const status = await statusOf(port, agent, questionOf(next++))
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, caller))
  agent.destroy()
  return statuses
}

function statusOf(port: number, agent: Agent, { method, path, fields, body }: Question): Promise<number> {
  return new Promise((resolve) => {
    const headers = [...fields.flat(), 'Host', `127.0.0.1:${port}`]
    const req = request({ host: '127.0.0.1', port, method, path, headers, agent }, (res) => {
      res
        .on('error', () => resolve(0))
        .on('end', () => resolve(res.statusCode!))
        .resume()
    })
    req.on('error', () => resolve(0)).end(body)
  })
}
