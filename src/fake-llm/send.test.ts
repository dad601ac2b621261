import { constants, gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { PiecewiseGzip } from './send.ts'

test('each piece can be read before the next one is there', async () => {
  const gzip = new PiecewiseGzip()
  let bytes = Buffer.alloc(0)
  let text = ''
  for (const piece of ['one', ' two', ' three'.repeat(1000)]) {
    bytes = Buffer.concat([bytes, await gzip.write(Buffer.from(piece))])
    text += piece
    expect(gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH }).toString()).toBe(text)
  }
  expect(gunzipSync(Buffer.concat([bytes, await gzip.end()])).toString()).toBe(text)
})
