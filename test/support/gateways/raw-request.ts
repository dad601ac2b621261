import { connect } from 'node:net'

/** Sends a GET with the target as it is written, which `node:http` would refuse or change, and returns the status. */
export function statusOf(port: number, target: string): Promise<number> {
  return new Promise((resolve, reject) => {
    let received = ''
    const socket = connect(port, '127.0.0.1', () => {
      socket.write(`GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`)
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
