import type { ServerResponse } from 'node:http'
import type { HeaderList } from './header-list.ts'

/** A response without a body. Gateways reuse a connection only when they know where the response ends. */
export function respondEmpty(res: ServerResponse, status: number, headers: HeaderList = []): void {
  headers.push('Content-Length', '0')
  res.writeHead(status, headers)
  res.end()
}

export function respondText(res: ServerResponse, status: number, contentType: string, body: string | Buffer): void {
  const headers = ['Content-Type', contentType, 'Content-Length', String(Buffer.byteLength(body)), 'Cache-Control', 'no-store']
  res.writeHead(status, headers)
  res.end(body)
}

export function respondJson(res: ServerResponse, status: number, body: unknown): void {
  respondText(res, status, 'application/json', JSON.stringify(body))
}
