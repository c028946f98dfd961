# ROS 2 with all nodes, amd64 and arm64:
#   docker build -t deadline_perception .                       or: docker buildx build --platform linux/amd64,linux/arm64 .
#   docker run --rm -v "$PWD:/data" deadline_perception deadline-perception detect /data/photo.jpg --out /data/found
#   docker compose up                                           the webcam of this machine, live at http://localhost:9090
ARG DISTRO=jazzy
FROM ros:${DISTRO}-ros-base
ARG DISTRO
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /workspace
COPY package.xml src/deadline_perception/
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-venv python3-pip \
    && rosdep update --rosdistro "$DISTRO" \
    && rosdep install --from-paths src --ignore-src --rosdistro "$DISTRO" --dependency-types build \
        --dependency-types buildtool --dependency-types build_export --dependency-types exec --yes \
    && rm -rf /var/lib/apt/lists/*
# NumPy 1 is what the distribution's own packages were built for, up to Jazzy. On arm64 and without a GPU, torch for CPUs.
COPY constraints.txt src/deadline_perception/
RUN python3 -m venv --system-site-packages /opt/python \
    && numpy="$([ "$DISTRO" = lyrical ] && echo 'numpy>=2' || echo 'numpy>=1.26,<2')" \
    && /opt/python/bin/pip install --no-cache-dir \
        -c <(grep -v ^numpy src/deadline_perception/constraints.txt) "$numpy" torch torchvision \
        --extra-index-url https://download.pytorch.org/whl/cpu \
    && /opt/python/bin/pip install --no-cache-dir \
        -c <(grep -v ^numpy src/deadline_perception/constraints.txt) "$numpy" safetensors rosbags mcap nvidia-ml-py \
        filelock msgspec platformdirs psutil pycocotools matplotlib rich scipy openvino 'rerun-sdk>=0.24,<1'
ENV PATH=/opt/python/bin:$PATH
COPY . src/deadline_perception
RUN source "/opt/ros/$DISTRO/setup.bash" && colcon build --cmake-args -DPython3_EXECUTABLE=/opt/python/bin/python3 \
    && printf '#!/bin/bash\nsource /workspace/install/setup.bash\nexport PATH="$PATH:/workspace/install/deadline_perception/lib/deadline_perception"\nexec "$@"\n' \
        >/entrypoint && chmod +x /entrypoint
# Prepared segments and latency profiles are kept for the next start.
ENV XDG_CACHE_HOME=/cache
VOLUME /cache
ENTRYPOINT ["/entrypoint"]
CMD ["deadline-perception", "--help"]
