import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type Owner, scratchDirectory } from '../service/running.ts'
import type { Manifest } from './helm.ts'

/** The kinds that the chart makes by default and in which Helm keeps its releases, by the group that has them. */
const KINDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'api/v1': { secrets: 'Secret', configmaps: 'ConfigMap', services: 'Service', serviceaccounts: 'ServiceAccount' },
  'apis/apps/v1': { deployments: 'Deployment' },
  'apis/policy/v1': { poddisruptionbudgets: 'PodDisruptionBudget' },
}

/**
 * A stand-in for the API server of Kubernetes: it stores what Helm sends, and checks, defaults and starts nothing. A list in a patch replaces the one
 * before, whereas a real server merges some lists by keys: it suits changes of single fields.
 */
export class StoredApi {
  /** The file that tells Helm where it is. */
  readonly kubeconfig: string
  readonly #objects: Map<string, Manifest>

  private constructor(kubeconfig: string, objects: Map<string, Manifest>) {
    this.kubeconfig = kubeconfig
    this.#objects = objects
  }

  static async start(owner: Owner): Promise<StoredApi> {
    const objects = new Map<string, Manifest>()
    const server = createServer((request, response) => {
      answer(objects, request, response).catch((error) => response.writeHead(500).end(String(error)))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    owner.onTestFinished(() => {
      server.closeAllConnections()
      return new Promise<void>((resolve) => server.close(() => resolve()))
    })
    const kubeconfig = join(await scratchDirectory(owner), 'kubeconfig')
    const cluster = { server: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'stored', cluster }],
      users: [{ name: 'nobody', user: {} }],
      contexts: [{ name: 'stored', context: { cluster: 'stored', user: 'nobody', namespace: 'default' } }],
      'current-context': 'stored',
    }
    await writeFile(kubeconfig, JSON.stringify(config))
    return new StoredApi(kubeconfig, objects)
  }

  /** The objects of a kind, such as `deployments`. */
  objects(resource: string): Manifest[] {
    return [...this.#objects].filter(([path]) => path.split('/').at(-2) === resource).map(([, object]) => object)
  }
}

async function answer(objects: Map<string, Manifest>, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url!, 'http://127.0.0.1')
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const body = Buffer.concat(chunks)
  const send = (status: number, object: object): void => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(object))
  }
  const found = discovered(pathname)
  if (found !== undefined) return send(200, found)
  const stored = objects.get(pathname)
  if (request.method === 'POST') {
    const object = readObject(body)
    objects.set(`${pathname}/${object.metadata.name}`, object)
    return send(201, object)
  }
  // Helm lists nothing but its releases.
  if (request.method === 'GET' && pathname.endsWith('/secrets')) {
    const wanted = (searchParams.get('labelSelector') ?? '').split(',').map((pair) => pair.split('='))
    const items = [...objects].filter(
      ([path, { metadata }]) =>
        path.startsWith(`${pathname}/`) && wanted.every(([label, value]) => label === '' || metadata.labels?.[label!] === value),
    )
    return send(200, { kind: 'SecretList', apiVersion: 'v1', metadata: {}, items: items.map(([, object]) => object) })
  }
  if (stored === undefined) return send(404, { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404 })
  if (request.method === 'DELETE') objects.delete(pathname)
  if (request.method === 'PUT') objects.set(pathname, readObject(body))
  if (request.method === 'PATCH') objects.set(pathname, merged(stored, readObject(body)))
  send(200, objects.get(pathname) ?? stored)
}

/** Helm sends what it stores itself as Protocol Buffers, and takes JSON in return. */
function readObject(body: Buffer): Manifest {
  if (body.toString('latin1', 0, 4) !== 'k8s\0') return JSON.parse(body.toString('utf8'))
  // Of the envelope, 2 is the object. Of a Secret, 1 is its metadata, 2 its data, and 3 its type; of metadata, 1 is the name, and 11 are the labels.
  const object = fieldsOf(fieldsOf(body.subarray(4)).find(([field]) => field === 2)![1])
  const metadata = fieldsOf(object.find(([field]) => field === 1)![1])
  const entries = (fields: Field[], wanted: number, encoding: BufferEncoding): object =>
    Object.fromEntries(
      fields
        .filter(([field]) => field === wanted)
        .map(([, entry]) => {
          const [key, value] = fieldsOf(entry)
          return [key![1].toString(), value![1].toString(encoding)]
        }),
    )
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: metadata.find(([field]) => field === 1)![1].toString(), labels: entries(metadata, 11, 'utf8') },
    data: entries(object, 2, 'base64'),
    type: object.find(([field]) => field === 3)![1].toString(),
  }
}

type Field = [field: number, value: Buffer]

/** The fields of a message that have a length; numbers are passed over. */
function fieldsOf(message: Buffer): Field[] {
  const fields: Field[] = []
  let at = 0
  const varint = (): number => {
    let value = 0
    for (let factor = 1; ; factor *= 128) {
      const byte = message[at++]!
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
  }
  while (at < message.length) {
    const tag = varint()
    const size = varint()
    if ((tag & 7) !== 2) continue
    fields.push([tag >> 3, message.subarray(at, at + size)])
    at += size
  }
  return fields
}

/** What the server says of itself, if the path asks for that. */
function discovered(path: string): object | undefined {
  if (path === '/version') return { major: '1', minor: '34', gitVersion: 'v1.34.4' }
  if (path === '/api') return { kind: 'APIVersions', versions: ['v1'] }
  if (path === '/apis') {
    const groups = ['apps', 'policy'].map((name) => {
      const version = { groupVersion: `${name}/v1`, version: 'v1' }
      return { name, versions: [version], preferredVersion: version }
    })
    return { kind: 'APIGroupList', apiVersion: 'v1', groups }
  }
  const kinds = KINDS[path.slice(1)]
  if (kinds === undefined) return undefined
  const resources = Object.entries(kinds).map(([name, kind]) => ({
    name,
    kind,
    namespaced: true,
    verbs: ['create', 'delete', 'get', 'list', 'patch', 'update'],
  }))
  return { kind: 'APIResourceList', groupVersion: path.replace(/^\/apis?\//, ''), resources }
}

/** RFC 7396: a null takes a field away. Fields that begin with a dollar sign are about lists. */
function merged(object: Manifest, patch: Manifest): Manifest {
  if (patch === null || typeof patch !== 'object' || Array.isArray(patch)) return patch
  const result = { ...(object !== null && typeof object === 'object' && !Array.isArray(object) ? object : {}) }
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name]
    else if (!name.startsWith('$')) result[name] = merged(result[name], value)
  }
  return result
}
