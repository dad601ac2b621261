import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { type Route, Routes } from './routes.ts'

const routes = new Routes([
  route('/livez', 'GET', 'HEAD'),
  route('/v1/items', 'GET'),
  route('/v1/items', 'PUT', 'DELETE'),
  route('/console/', 'GET'),
  route('/console/assets/', 'GET'),
  route('/console/assets/exact', 'POST'),
])

describe('a request is handled by', () => {
  test.each([
    ['the route with its path', 'GET', '/livez', '/livez GET,HEAD'],
    ['that, whatever the query', 'HEAD', '/livez?a=/console/', '/livez GET,HEAD'],
    ['that, in absolute form', 'GET', 'http://a/livez', '/livez GET,HEAD'],
    ['the one of several that has its method', 'DELETE', '/v1/items', '/v1/items PUT,DELETE'],
    ['the one above it', 'GET', '/console/index.html', '/console/ GET'],
    ['that for the prefix itself', 'GET', '/console/', '/console/ GET'],
    ['the nearest above it', 'GET', '/console/assets/a/b.js', '/console/assets/ GET'],
    ['the one with its own path before those above', 'POST', '/console/assets/exact', '/console/assets/exact POST'],
    ['none: 404', 'GET', '/console', 404],
    ['none for a path below one that is no prefix: 404', 'GET', '/livez/', 404],
    ['none for dot segments, which nobody resolves here', 'GET', '/x/../livez', 404],
    ['none for a name that every object has', 'GET', '/constructor', 404],
    ['none for its method: 405', 'POST', '/livez', '405 GET, HEAD'],
    ['none of several for its method: 405', 'POST', '/v1/items', '405 GET, PUT, DELETE'],
    ['none for its method, though a prefix would have it: 405', 'GET', '/console/assets/exact', '405 POST'],
  ])('%s', (_what, method, url, expected) => {
    expect(outcome(method, url)).toBe(expected)
  })
})

test.each([
  ['throws', () => raise()],
  ['rejects', async () => raise()],
])('what a route %s reaches the caller', async (_how, handle) => {
  const error = await new Promise((resolve) => {
    new Routes([{ path: '/', methods: ['GET'], handle }]).dispatch(request('GET', '/'), {} as ServerResponse, (_res, thrown) =>
      resolve(thrown),
    )
  })
  expect(error).toEqual(new Error('broken'))
})

function raise(): never {
  throw new Error('broken')
}

/** Writes its own name as the response. */
function route(path: string, ...methods: string[]): Route {
  return { path, methods, handle: (_req, res) => void res.end(`${path} ${methods}`) }
}

function outcome(method: string, url: string): unknown {
  let [status, allow, body]: [number | undefined, string, unknown] = [undefined, '', undefined]
  const res = {
    writeHead(code: number, fields: string[]) {
      status = code
      allow = fields[fields.indexOf('Allow') + 1]!
    },
    end(text?: string) {
      body = text
    },
  }
  routes.dispatch(request(method, url), res as unknown as ServerResponse, (_res, error) => {
    throw error
  })
  return status === undefined ? body : status === 405 ? `405 ${allow}` : status
}

function request(method: string, url: string): IncomingMessage {
  return { method, url } as IncomingMessage
}
