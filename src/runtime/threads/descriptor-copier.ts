/** A child process that lives for a moment: it sends the socket that it is given back, so many times. */

const copies = Number(process.argv[2])

// Without a listener the channel would close before the last copy is on its way.
process.on('message', (_message, socket) => {
  let unsent = copies
  for (let i = 0; i < copies; i++) {
    process.send!({}, socket, { keepOpen: true }, (error) => {
      if (error !== null) process.exit(1)
      if (--unsent === 0) process.exit(0)
    })
  }
})
