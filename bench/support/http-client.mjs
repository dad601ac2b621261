import { request } from 'node:http'
import { text } from 'node:stream/consumers'

/** One request on a connection of its own. */
export function fetchFrom(port, path, { method, body, fields, socketPath } = {}) {
  return new Promise((resolve, reject) => {
    const options = {
      ...(socketPath === undefined ? { port, host: '127.0.0.1' } : { socketPath }),
      path,
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: fields,
      agent: false,
    }
    const req = request(options, (res) => {
      text(res).then((answer) => resolve({ status: res.statusCode, body: answer }), reject)
    })
    req.on('error', reject).end(body)
  })
}

export function expect(isTrue, what) {
  if (!isTrue) throw new Error(`not so: ${what}`)
}
