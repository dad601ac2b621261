import { connect } from 'node:net'

/** Sends a GET with the target, the fields and the body as they are written, a byte a character, which `node:http` would refuse or change, and returns the status. */
export function statusOf(port: number, target: string, fields = 'Host: 127.0.0.1\r\n', body = ''): Promise<number> {
  return new Promise((resolve, reject) => {
    let received = ''
    const socket = connect(port, '127.0.0.1', () => {
      socket.write(`GET ${target} HTTP/1.1\r\n${fields}Connection: close\r\n\r\n${body}`, 'latin1')
    })
    socket.on('data', (bytes) => {
      received += bytes
    })
    socket.on('error', reject)
    socket.on('close', () => {
      const status = /^HTTP\/1\.1 (\d+)/.exec(received)
      if (status === null) reject(new Error(`no response to ${target}: ${received}`))
      else resolve(Number(status[1]))
    })
  })
}
