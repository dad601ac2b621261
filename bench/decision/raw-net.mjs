// A floor: what node:net takes to get a request and to answer it. The request is not read, only its bytes are counted; the
// answer is a constant, as long as one of edge's.
import { createServer } from 'node:net'

const REQUEST_BYTES = Number(process.argv[2])
const ANSWER = Buffer.from(
  'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nRateLimit-Limit: 1000000000\r\nRateLimit-Remaining: 999999999\r\nRateLimit-Reset: 1\r\n' +
    'RateLimit: "bench";r=999999999;t=1\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: keep-alive\r\n\r\n',
)

const server = createServer({ noDelay: true }, (socket) => {
  let missingBytes = REQUEST_BYTES
  socket.on('error', () => socket.destroy())
  socket.on('data', (chunk) => {
    missingBytes -= chunk.length
    for (; missingBytes <= 0; missingBytes += REQUEST_BYTES) socket.write(ANSWER)
  })
})
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }))
