import { connect } from 'node:tls'
import { textOf } from '../decision/requests.mjs'
import { ITEM } from '../proxy/requests.mjs'
import { OTHERS, run } from '../support/processes.mjs'

/** Several at a time, so that the server need not wait for a client's next step. */
const CLIENTS = 4
const REQUEST = { ...ITEM, fields: { ...ITEM.fields, Connection: 'close' } }

/**
 * New connections from `openssl s_time`, each with a handshake, a proxied request and its end. The program asks for a path with HTTP/1.0 and
 * without fields, so the path it is given ends with a whole request. What it has read tells whether all of them were answered with 200.
 */
export async function makeHandshakes(openssl, { port, seconds, isResumed }) {
  const bytes = await answerBytes(port)
  const text = textOf(REQUEST)
  const path = `${text.slice(text.indexOf(' ') + 1, -2)}X-End:`
  const args = ['s_time', '-connect', `127.0.0.1:${port}`, isResumed ? '-reuse' : '-new', '-tls1_3', '-time', String(seconds), '-www', path]
  const startMs = performance.now()
  const printed = await Promise.all(Array.from({ length: CLIENTS }, () => run(OTHERS, openssl, args)))
  const elapsedMs = performance.now() - startMs
  let [requests, failed] = [0, 0]
  for (const text of printed) {
    const [, count, each] = /(\d+) connections in \d+ real seconds, (\d+) bytes read per connection/.exec(text)
    requests += Number(count)
    if (Number(each) !== bytes) failed += Number(count)
    // A letter for each connection: `r` for a resumed session.
    if ((text.match(/r{2,}/)?.[0].length ?? 0) > 0 !== isResumed) throw new Error(`sessions were ${isResumed ? 'not ' : ''}resumed`)
  }
  return { requests, rejected: 0, failed, elapsedMs }
}

/** How long a response of 200 is. */
function answerBytes(port) {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => socket.write(textOf(REQUEST)))
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk
    })
    socket.once('error', reject).once('close', () => {
      if (/^HTTP\/1\.[01] 200 /.test(text)) resolve(text.length)
      else reject(new Error(`not allowed: ${text}`))
    })
  })
}
