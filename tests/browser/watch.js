(async () => {
  const video = document.querySelector('#picture');
  const stream = video.srcObject;
  const context = new AudioContext();
  const analyser = context.createAnalyser();
  analyser.fftSize = 2048;
  context.createMediaStreamSource(new MediaStream(stream.getAudioTracks())).connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
  const pen = canvas.getContext('2d');
  const rows = [];
  const began = performance.now();
  while (performance.now() - began < MILLISECONDS) {
    for (let skipped = 0; skipped < 2; skipped += 1) { // every second picture: looking costs time that drawing needs
      await new Promise((resolve) => video.requestVideoFrameCallback(resolve));
    }
    analyser.getFloatTimeDomainData(samples);
    const rms = Math.sqrt(samples.reduce((sum, x) => sum + x * x, 0) / samples.length);
    pen.drawImage(video, 0, 0, canvas.width, canvas.height);
    const blob = await canvas.convertToBlob({ type: 'image/jpeg', quality: 0.92 });
    const bytes = new Uint8Array(await blob.arrayBuffer());
    rows.push([rms, btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))]);
  }
  await context.close();
  return rows;
})()
