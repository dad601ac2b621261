import { createHash, randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { expect } from 'vitest'
import type { Edge } from '../service/edge.ts'
import { HttpBackend } from './backend.ts'
import { proxying } from './proxy.ts'

/** So many bytes reach the backend as they were sent, in the same framing. */
export async function expectUploaded(size: number, framing: 'by its length' | 'in chunks'): Promise<void> {
  const body = randomBytes(size)
  const backend = await HttpBackend.start()
  const edge = await proxying(backend)
  const length = { 'content-length': String(size) }
  const chunks = { 'transfer-encoding': 'chunked' }
  const [chosen, other] = framing === 'by its length' ? [length, 'transfer-encoding'] : [chunks, 'content-length']
  expect(await upload(edge, body, chosen)).toBe(200)
  expect(backend.only.headers).toMatchObject(chosen)
  expect(backend.only.headers).not.toHaveProperty(other)
  expect(digest(await backend.only.body())).toBe(digest(body))
}

/** So many bytes reach the client as the backend sent them, in both framings. */
export async function expectDownloaded(size: number): Promise<void> {
  const body = randomBytes(size)
  const backend = await HttpBackend.start((req, res) => {
    if (req.url === '/length') res.setHeader('Content-Length', size)
    else res.setHeader('Transfer-Encoding', 'chunked')
    res.end(body)
  })
  const edge = await proxying(backend)
  for (const framing of ['length', 'chunks']) {
    const response = await fetch(`http://127.0.0.1:${edge.port}/${framing}`)
    expect(response.headers.get('content-length')).toBe(framing === 'length' ? String(size) : null)
    expect(digest(Buffer.from(await response.arrayBuffer()))).toBe(digest(body))
  }
}

/** Returns the status. */
export function upload(edge: Edge, body: Buffer, headers: Record<string, string | number>): Promise<number> {
  return new Promise((resolve, reject) => {
    const req = request({ port: edge.port, host: '127.0.0.1', method: 'POST', headers, agent: false }, (res) => {
      res
        .resume()
        .on('end', () => resolve(res.statusCode!))
        .on('error', reject)
    })
    req.on('error', reject)
    // In two pieces, so that it is not one write.
    req.write(body.subarray(0, body.length >> 1))
    req.end(body.subarray(body.length >> 1))
  })
}

function digest(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
