/** A short-lived child process that sends the socket it receives back to its parent as many times as its argument says. */

const copies = Number(process.argv[2])

// Without a listener the channel would close before the last copy is sent.
process.on('message', (_message, socket) => {
  let unsent = copies
  for (let i = 0; i < copies; i++) {
    process.send!({}, socket, { keepOpen: true }, (error) => {
      if (error !== null) process.exit(1)
      if (--unsent === 0) process.exit(0)
    })
  }
})
