import { expect, test } from 'vitest'
import { exchange } from '../../support/service/http.ts'
import { start } from '../../support/service/one-bucket.ts'

test('every byte of a target is read alike on both wires', async () => {
  const servers = await Promise.all([true, false].map((hasFastWire) => start(1_000_000, hasFastWire)))
  for (let code = 1; code < 256; code++) {
    const target = `/v1/ext-authz/a${String.fromCharCode(code)}b`
    const head = Buffer.from(`GET ${target} HTTP/1.1\r\nHost: edge\r\n\r\n`, 'latin1')
    const end = Buffer.from('GET /livez HTTP/1.1\r\nHost: edge\r\nConnection: close\r\n\r\n')
    const [fast, node] = await Promise.all(
      servers.map(async ({ port }) => (await exchange(port, Buffer.concat([head, end]))).match(STATUS)),
    )
    expect({ code, statuses: fast }).toEqual({ code, statuses: node })
  }
})

const STATUS = /HTTP\/1\.1 \d{3}/g
