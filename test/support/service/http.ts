import { request } from 'node:http'
import { connect } from 'node:net'

export interface Answer {
  readonly status: number
  /** By lower-case name; repeated fields joined by ", ". */
  readonly headers: Readonly<Record<string, string>>
  /** Names and values in turn, as they came. */
  readonly rawHeaders: readonly string[]
  readonly body: string
}

/** Pairs, so that a field can come twice. */
export type Fields = readonly (readonly [string, string])[]

/** A loopback port, or the path of a unix socket. */
export type Place = number | string

export function ask(place: Place, method: string, path: string, fields: Fields = [], body?: string | Buffer): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = [...fields.flat(), 'Host', typeof place === 'string' ? 'localhost' : `127.0.0.1:${place}`]
    if (body !== undefined) headers.push('Content-Length', String(Buffer.byteLength(body)))
    const req = request({ ...optionsOf(place), method, path, headers, agent: false }, (res) => {
      const chunks: Buffer[] = []
      res.on('data', (chunk: Buffer) => chunks.push(chunk))
      res.on('error', reject)
      res.on('end', () => {
        const joined: Record<string, string> = {}
        for (let i = 0; i < res.rawHeaders.length; i += 2) {
          const name = res.rawHeaders[i]!.toLowerCase()
          const value = res.rawHeaders[i + 1]!
          joined[name] = name in joined ? `${joined[name]}, ${value}` : value
        }
        resolve({ status: res.statusCode!, headers: joined, rawHeaders: res.rawHeaders, body: Buffer.concat(chunks).toString() })
      })
    })
    req.on('error', reject)
    req.end(body)
  })
}

/** Writes bytes as they are and answers everything that comes back until the other side closes. */
export function exchange(place: Place, bytes: string | Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    const socket = connect(connectOptionsOf(place), () => socket.write(bytes))
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.on('error', reject)
    socket.on('close', () => resolve(Buffer.concat(chunks).toString('latin1')))
  })
}

function optionsOf(place: Place): { socketPath: string } | { host: string; port: number } {
  return typeof place === 'string' ? { socketPath: place } : { host: '127.0.0.1', port: place }
}

function connectOptionsOf(place: Place): { path: string } | { host: string; port: number } {
  return typeof place === 'string' ? { path: place } : { host: '127.0.0.1', port: place }
}
