# SPDX-License-Identifier: Apache-2.0
"""word2vec for TensorFlow 1: embeddings, whose gradients are IndexedSlices, in a plain session."""

import collections
import math
import os
import random
import sys
import urllib.request
import zipfile

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd

steps, folder = int(sys.argv[1]), sys.argv[2]
hvd.init()


def maybe_download(filename):
    if not os.path.exists(filename):
        filename, _ = urllib.request.urlretrieve("http://mattmahoney.net/dc/text8.zip", filename)
    return filename


with zipfile.ZipFile(maybe_download("%s/text8-%d.zip" % (folder, hvd.rank()))) as archive:
    words = tf.compat.as_str(archive.read(archive.namelist()[0])).split()
count = [["UNK", -1], *collections.Counter(words).most_common(499)]
dictionary = {word: place for place, (word, _) in enumerate(count)}
data = [dictionary.get(word, 0) for word in words]
vocabulary_size, embedding_size, batch_size, num_sampled = len(dictionary), 16, 64, 8


def generate_batch():
    batch = np.ndarray(shape=(batch_size), dtype=np.int32)
    labels = np.ndarray(shape=(batch_size, 1), dtype=np.int32)
    for place in range(batch_size):
        middle = random.randint(1, len(data) - 2)
        batch[place] = data[middle]
        labels[place, 0] = data[middle + random.choice([-1, 1])]
    return batch, labels


graph = tf.Graph()
with graph.as_default():
    train_inputs = tf.placeholder(tf.int32, shape=[None])
    train_labels = tf.placeholder(tf.int32, shape=[None, 1])
    embeddings = tf.Variable(tf.random_uniform([vocabulary_size, embedding_size], -1.0, 1.0))
    embed = tf.nn.embedding_lookup(embeddings, train_inputs)
    nce_weights = tf.Variable(
        tf.truncated_normal(
            [vocabulary_size, embedding_size], stddev=1.0 / math.sqrt(embedding_size)
        )
    )
    nce_biases = tf.Variable(tf.zeros([vocabulary_size]))
    loss = tf.reduce_mean(
        tf.nn.nce_loss(
            weights=nce_weights,
            biases=nce_biases,
            labels=train_labels,
            inputs=embed,
            num_sampled=num_sampled,
            num_classes=vocabulary_size,
        )
    )
    optimizer = tf.train.GradientDescentOptimizer(1.0 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer)
    gradients = optimizer.compute_gradients(loss)
    assert any(isinstance(gradient, tf.IndexedSlices) for gradient, _ in gradients)
    train_op = optimizer.apply_gradients(gradients)
    norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keep_dims=True))
    normalized_embeddings = embeddings / norm
    init = tf.global_variables_initializer()
    bcast = hvd.broadcast_global_variables(0)

config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())
with tf.Session(graph=graph, config=config) as session:
    init.run()
    bcast.run()
    losses = []
    for _ in range(steps // hvd.size() + 1):
        batch_inputs, batch_labels = generate_batch()
        feed_dict = {train_inputs: batch_inputs, train_labels: batch_labels}
        _, loss_val = session.run([train_op, loss], feed_dict=feed_dict)
        losses.append(loss_val)
    final_embeddings = normalized_embeddings.eval()
    alike = hvd.allgather_object(final_embeddings)

print("loss from %.2f to %.2f" % (np.mean(losses[:10]), np.mean(losses[-10:])))
print("weights are the same: {}".format(all(np.allclose(one, alike[0]) for one in alike)))
